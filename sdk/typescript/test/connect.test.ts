// The states of the connection, on sockets and clocks in the hands of the test.
import assert from 'node:assert/strict';
import { beforeEach, type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import { DEVICE, FakeSocket, fakeClient, OFFLINE, READY, readyClient } from './support/socket.ts';

const { t: _, ...READY_PAYLOAD } = READY;
const TRANSPORT = { code: 'transport', message: 'Соединение со шлюзом прервано', fatal: false };
const AUTH_FAILED = { code: 'auth_failed', message: 'Шлюз отказал в доступе', fatal: true };

let random = 0;
beforeEach((t) => {
  (t as TestContext).mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_700_000_000_000 });
  (t as TestContext).mock.method(Math, 'random', () => random);
  random = 0;
});

test('connect opens the url and says hello when the socket is open', () => {
  const { client, told } = fakeClient({ user: { id: 'u-1', name: 'Ann' } });
  assert.equal(FakeSocket.all.length, 0);
  assert.equal(client.connect(), undefined);
  assert.equal(FakeSocket.last.url, 'ws://gateway.test/ws');
  assert.deepEqual(FakeSocket.last.sent, []);
  FakeSocket.last.open();
  const device = { id: 'tel-1', name: 'Phone', platform: 'android', app_version: '1.0.0' };
  const hello = { t: 'hello', v: 1, token: 'secret', device, user: { id: 'u-1', name: 'Ann' } };
  assert.deepEqual(FakeSocket.last.frames(), [hello]);
  assert.deepEqual(told.take(), [['state', 'connecting', undefined]]);
});

test('the token is in hello and nowhere else', () => {
  const { client } = fakeClient();
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  client.sendText('hi');
  assert.equal(FakeSocket.last.url.includes('secret'), false);
  assert.deepEqual(
    FakeSocket.last.sent.map((text) => text.includes('secret')),
    [true, false],
  );
  FakeSocket.last.frames();
  assert.equal(inspect(client, { depth: 20, showHidden: true }).includes('secret'), false);
});

test('ready: the state first, then onReady, and client.ready is true', () => {
  const { client, told } = fakeClient();
  client.connect();
  FakeSocket.last.open();
  assert.equal(client.ready, false);
  FakeSocket.last.receive(READY);
  assert.equal(client.ready, true);
  assert.deepEqual(told.take().slice(1), [
    ['state', 'connected', undefined],
    ['ready', READY_PAYLOAD],
  ]);
});

test('connect while a connection is there or under way changes nothing', () => {
  const { client, told } = fakeClient();
  client.connect();
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  told.take();
  client.connect();
  assert.equal(FakeSocket.all.length, 1);
  assert.deepEqual(told.take(), []);
});

test('connect throws when the url is no address, and the client stays idle', () => {
  const { client, told } = fakeClient({ url: 'gateway.test' });
  assert.throws(() => client.connect(), SyntaxError);
  assert.deepEqual(told.take(), []);
});

test('a connection that breaks: reconnecting with its attempt, then connected again', (t) => {
  const { client, told } = readyClient();
  FakeSocket.last.fail();
  FakeSocket.last.end(1006);
  assert.equal(client.ready, false);
  assert.deepEqual(told.take(), [
    ['error', TRANSPORT],
    ['state', 'reconnecting', 'попытка 1'],
  ]);
  t.mock.timers.tick(0);
  assert.equal(FakeSocket.all.length, 2);
  FakeSocket.last.end(1006);
  assert.deepEqual(told.take(), [['state', 'reconnecting', 'попытка 2']]);
  t.mock.timers.tick(0);
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.equal(FakeSocket.last.frames()[0]?.t, 'hello');
  assert.deepEqual(told.take(), [
    ['state', 'connected', undefined],
    ['ready', READY_PAYLOAD],
  ]);
});

test('an attempt that fails may tell its error alone, or its close as well', (t) => {
  const { told } = readyClient();
  FakeSocket.last.end(1006);
  t.mock.timers.tick(0);
  told.take();
  const failing = FakeSocket.last;
  failing.fail();
  failing.end(1006);
  assert.deepEqual(told.take(), [
    ['error', TRANSPORT],
    ['state', 'reconnecting', 'попытка 2'],
  ]);
  t.mock.timers.tick(0);
  assert.equal(FakeSocket.all.length, 3);
});

test('disconnect while an error is told: no other attempt', (t) => {
  const { client, told } = fakeClient();
  client.setHandlers({ onError: () => client.disconnect() });
  client.connect();
  FakeSocket.last.fail();
  t.mock.timers.tick(60_000);
  assert.deepEqual(told.of('state'), ['connecting', 'idle']);
  assert.equal(FakeSocket.all.length, 1);
});

test('back-off: exponential with full jitter, up to maxBackoffMs', (t) => {
  const pauses = (options: object, jitter: number): number[] => {
    readyClient(options);
    random = jitter;
    return [1, 2, 3, 4, 5, 6, 7].map(() => {
      FakeSocket.last.end(1001);
      const dialled = FakeSocket.all.length;
      let pause = 0;
      for (; FakeSocket.all.length === dialled; pause++) t.mock.timers.tick(1);
      return pause;
    });
  };
  assert.deepEqual(pauses({}, 0.999999), [500, 1000, 2000, 4000, 8000, 15000, 15000]);
  assert.deepEqual(pauses({ maxBackoffMs: 3000 }, 0.999999), [500, 1000, 2000, 3000, 3000, 3000, 3000]);
  assert.deepEqual(pauses({}, 0.5), [250, 500, 1000, 2000, 4000, 7500, 7500]);
});

test('only a connection that outlived the longest pause makes the attempts count from one again', (t) => {
  const { told } = readyClient();
  const again = (uptime: number): string | undefined => {
    t.mock.timers.tick(uptime);
    told.take();
    FakeSocket.last.end(1013);
    const detail = told.take()[0]?.[2] as string | undefined;
    t.mock.timers.tick(0);
    FakeSocket.last.open();
    FakeSocket.last.receive(READY);
    return detail;
  };
  const details = [14_000, 15_000, 15_001, 0].map(again);
  assert.deepEqual(details, ['попытка 1', 'попытка 2', 'попытка 1', 'попытка 2']);
});

test('connect ends the pause before an attempt, and counts from one again', (t) => {
  random = 0.5;
  const { client, told } = readyClient();
  FakeSocket.last.end(1006);
  told.take();
  client.connect();
  assert.deepEqual(told.take(), [['state', 'connecting', undefined]]);
  assert.equal(FakeSocket.all.length, 2);
  t.mock.timers.tick(60_000);
  assert.equal(FakeSocket.all.length, 2);
  FakeSocket.last.end(1006);
  assert.deepEqual(told.take(), [['state', 'reconnecting', 'попытка 1']]);
});

test('close 1008: the error frame, then failed, then auth_failed, and no other attempt', (t) => {
  const { client, told } = fakeClient();
  client.connect();
  FakeSocket.last.open();
  told.take();
  FakeSocket.last.receive({ t: 'error', code: 'forbidden', message: 'no', fatal: true });
  FakeSocket.last.end(1008, 'forbidden');
  assert.deepEqual(told.take(), [
    ['error', { code: 'forbidden', message: 'no', fatal: true }],
    ['state', 'failed', undefined],
    ['error', AUTH_FAILED],
  ]);
  t.mock.timers.tick(600_000);
  assert.equal(FakeSocket.all.length, 1);
  assert.equal(client.ready, false);
  client.connect();
  assert.equal(FakeSocket.all.length, 2);
  assert.deepEqual(told.take(), [['state', 'connecting', undefined]]);
});

test('a fatal error whose close frame was lost is a refusal as well; any other close is not', () => {
  const after = (frame: object, code: number): string => {
    const { told } = readyClient();
    FakeSocket.last.receive(frame);
    FakeSocket.last.end(code);
    return told.of('state').at(-1) as string;
  };
  const fatal = { t: 'error', code: 'auth_failed', message: '', fatal: true };
  assert.equal(after(fatal, 1006), 'failed');
  assert.equal(after(fatal, 1007), 'reconnecting');
  assert.equal(after({ ...fatal, fatal: false }, 1006), 'reconnecting');
  for (const code of [1000, 1001, 1002, 1005, 1006, 1011, 1013, 4000]) {
    assert.equal(after({ t: 'typing' }, code), 'reconnecting', `${code}`);
  }
});

test('a fatal error counts for its own connection only', (t) => {
  const { told } = readyClient();
  FakeSocket.last.receive({ t: 'error', code: 'bad_frame', message: '', fatal: true });
  FakeSocket.last.end(1007);
  t.mock.timers.tick(0);
  FakeSocket.last.open();
  FakeSocket.last.end(1006);
  assert.deepEqual(told.of('state'), ['reconnecting', 'reconnecting']);
});

test('an error of an open socket does not take the place of its close code', () => {
  const { told } = readyClient();
  FakeSocket.last.fail();
  FakeSocket.last.end(1008);
  assert.deepEqual(told.of('state'), ['failed']);
});

test('close 4001: failed with replaced, and no other attempt', (t) => {
  const { told } = readyClient();
  FakeSocket.last.end(4001, 'replaced');
  const message = 'Устройство подключилось из другого экземпляра приложения';
  assert.deepEqual(told.take(), [
    ['state', 'failed', undefined],
    ['error', { code: 'replaced', message, fatal: true }],
  ]);
  t.mock.timers.tick(600_000);
  assert.equal(FakeSocket.all.length, 1);
});

test('reconnectWhenReplaced: close 4001 is like any other', (t) => {
  const { told } = readyClient({ reconnectWhenReplaced: true });
  FakeSocket.last.end(4001, 'replaced');
  assert.deepEqual(told.take(), [['state', 'reconnecting', 'попытка 1']]);
  t.mock.timers.tick(0);
  assert.equal(FakeSocket.all.length, 2);
});

test('disconnect: idle at once, the socket closed, and nothing more is heard of it', (t) => {
  const { client, told } = readyClient();
  const socket = FakeSocket.last;
  client.disconnect();
  assert.equal(socket.readyState, 2);
  assert.equal(client.ready, false);
  assert.deepEqual(told.take(), [['state', 'idle', undefined]]);
  socket.receive({ t: 'typing' });
  socket.fail();
  socket.end(1006);
  t.mock.timers.tick(60_000);
  client.disconnect();
  assert.deepEqual(told.take(), []);
  assert.equal(FakeSocket.all.length, 1);
});

test('disconnect during a pause: no other attempt', (t) => {
  const { client, told } = readyClient();
  FakeSocket.last.end(1006);
  client.disconnect();
  assert.deepEqual(told.of('state'), ['reconnecting', 'idle']);
  t.mock.timers.tick(60_000);
  assert.equal(FakeSocket.all.length, 1);
});

test('disconnect before the socket is open', () => {
  const { client, told } = fakeClient();
  client.connect();
  const socket = FakeSocket.last;
  client.disconnect();
  socket.open();
  assert.deepEqual(socket.sent, []);
  assert.deepEqual(told.of('state'), ['connecting', 'idle']);
});

test('a callback may disconnect, and is told nothing of what it left', () => {
  const { client, told } = fakeClient();
  client.setHandlers({ onState: (state) => state === 'connected' && client.disconnect() });
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.deepEqual(told.of('ready'), []);
});

test('what a callback throws is not caught, and harms nothing', (t) => {
  const { client, told } = fakeClient();
  client.connect();
  FakeSocket.last.open();
  client.setHandlers({
    onState: (state) => {
      throw new Error(state);
    },
  });
  assert.throws(() => FakeSocket.last.receive(READY), /connected/);
  assert.equal(client.ready, true);
  assert.throws(() => FakeSocket.last.end(1001), /reconnecting/);
  t.mock.timers.tick(0);
  assert.equal(FakeSocket.all.length, 2);
  assert.throws(() => FakeSocket.last.end(1008), /failed/);
  assert.deepEqual(told.of('error'), [AUTH_FAILED]);
});

test('setHandlers adds to the callbacks, and takes the place of those of the same name', () => {
  const heard: string[] = [];
  const { client } = fakeClient({ handlers: { onTyping: () => heard.push('1'), onTypingStop: () => heard.push('2') } });
  client.setHandlers({ onTypingStop: () => heard.push('3'), onAvatar: (state) => heard.push(state) });
  client.connect();
  const say = () =>
    FakeSocket.last.receive({ t: 'typing' }, { t: 'typing', stop: true }, { t: 'avatar', state: 'speaking' });
  say();
  assert.deepEqual(heard.splice(0), ['1', '3', 'speaking']);
  client.setHandlers({ onTyping: undefined });
  say();
  assert.deepEqual(heard.splice(0), ['3', 'speaking']);
});

test('callbacks may be methods of an object', () => {
  class Chat {
    heard = '';
    onMessage(message: { text: string }): void {
      this.heard = message.text;
    }
  }
  const chat = new Chat();
  const { client } = fakeClient({ handlers: chat });
  client.connect();
  FakeSocket.last.receive({ t: 'message', id: 'a-1', text: 'hi', chunk: { index: 0, total: 1 }, final: true });
  assert.equal(chat.heard, 'hi');
});

test('without handlers and user, too', () => {
  const { client } = fakeClient({ handlers: undefined, user: undefined });
  client.connect();
  FakeSocket.last.open();
  assert.deepEqual(FakeSocket.last.frames()[0]?.user, {});
  FakeSocket.last.receive(READY, { t: 'error', code: 'x', message: '', fatal: false });
  FakeSocket.last.end(1008);
  client.sendText('hi');
});

test('texts take the place of the Russian ones', () => {
  const texts = { offline: 'no connection', attempt: (number: number) => `attempt ${number}` };
  const { client, told } = readyClient({ texts });
  FakeSocket.last.fail();
  FakeSocket.last.end(1006);
  client.sendText('hi');
  assert.deepEqual(told.take(), [
    ['error', TRANSPORT],
    ['state', 'reconnecting', 'attempt 1'],
    ['error', { ...OFFLINE, message: 'no connection' }],
  ]);
});

test('the device of the options is what hello tells', () => {
  const { client } = fakeClient({ device: { ...DEVICE, id: 'тел', appVersion: '2' } });
  client.connect();
  FakeSocket.last.open();
  const { device } = FakeSocket.last.frames()[0]!;
  assert.deepEqual(device, { id: 'тел', name: 'Phone', platform: 'android', app_version: '2' });
});
