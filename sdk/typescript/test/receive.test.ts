// What frames of the gateway are told as. Most of that is in the vectors; here is what they leave open.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeSocket, READY, readyClient } from './support/socket.ts';

function part(id: string, number: number, parts: number, data: string, size: number): object {
  const head = { t: 'media', id, kind: 'document', mime: 'text/plain', filename: 'a.txt' };
  return { ...head, part: number, parts, final: number === parts - 1, size, data };
}

test('an edit goes to onMessageEdit and not to onMessage', () => {
  const { told } = readyClient();
  const frame = { t: 'message', id: 'a-1', text: 'one', chunk: { index: 0, total: 1 }, final: false };
  FakeSocket.last.receive(frame, { ...frame, edit: true, text: 'one two' });
  const message = { id: 'a-1', text: 'one', index: 0, total: 1, final: false };
  assert.deepEqual(told.take(), [
    ['message', message],
    ['messageEdit', { ...message, text: 'one two', edit: true }],
  ]);
});

test('onTyping and onTypingStop have no arguments', () => {
  const { told } = readyClient();
  FakeSocket.last.receive({ t: 'typing' }, { t: 'typing', stop: true });
  assert.deepEqual(told.take(), [['typing'], ['typingStop']]);
});

test('the case of t does not matter', () => {
  const { told } = readyClient();
  FakeSocket.last.receive({ t: 'Avatar', state: 'speaking' });
  assert.deepEqual(told.take(), [['avatar', 'speaking']]);
});

test('a binary message is ignored', () => {
  const { told } = readyClient();
  (FakeSocket.last.onmessage as unknown as (event: object) => void)({ data: new ArrayBuffer(2) });
  assert.deepEqual(told.take(), []);
});

test('ready again on the same connection is told, the state is not', () => {
  const { told } = readyClient();
  FakeSocket.last.receive(READY);
  assert.deepEqual(told.of('state'), []);
  assert.equal(told.of('ready').length, 1);
});

test('onPong: how long a ping took there and back', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_700_000_000_000 });
  const { client, told } = readyClient();
  client.ping();
  const { ts } = FakeSocket.last.frames()[0]!;
  t.mock.timers.setTime(1_700_000_000_042);
  FakeSocket.last.receive({ t: 'pong', ts }, { t: 'pong', ts: Number(ts) + 1000 });
  assert.deepEqual(told.take(), [
    ['pong', { ts, rtt_ms: 42 }],
    ['pong', { ts: Number(ts) + 1000, rtt_ms: 0 }],
  ]);
});

test('onMedia: once, with the whole file, in whichever order its parts come', () => {
  const { told } = readyClient();
  FakeSocket.last.receive(
    part('f-1', 2, 3, 'Bgc=', 8),
    part('f-1', 0, 3, 'AAEC', 8),
    part('f-1', 0, 3, 'AAEC', 8),
    part('f-1', 1, 3, 'AwQF', 8),
  );
  assert.deepEqual(told.of('media'), [
    {
      ...{ id: 'f-1', kind: 'document', mime: 'text/plain', filename: 'a.txt', caption: '' },
      ...{ part: 2, parts: 3, final: true, size: 8, data: 'AAECAwQFBgc=' },
    },
  ]);
});

test('parts of a file may come without padding', () => {
  const { told } = readyClient();
  FakeSocket.last.receive(part('f-1', 0, 2, 'AA', 5), part('f-1', 1, 2, 'AQIDBA', 5));
  assert.equal(told.of('media')[0]?.data, 'AAECAwQ=');
});

test('onMediaProgress: after each part but the last', () => {
  const { told } = readyClient();
  FakeSocket.last.receive(part('f-1', 0, 3, 'AAEC', 8), part('f-1', 1, 3, 'AwQF', 8), part('f-1', 2, 3, 'Bgc=', 8));
  assert.deepEqual(
    told.take().map(([name, data]) => (name === 'mediaProgress' ? data : name)),
    [{ id: 'f-1', received: 3, size: 8 }, { id: 'f-1', received: 6, size: 8 }, 'media'],
  );
});

test('an empty file has empty data', () => {
  const { told } = readyClient();
  FakeSocket.last.receive(part('f-1', 0, 1, '', 0));
  assert.equal(told.of('media')[0]?.data, '');
});

test('a file that breaks off with its connection does not go on in the next one', () => {
  const { client, told } = readyClient();
  FakeSocket.last.receive(part('f-1', 0, 2, 'AAEC', 6));
  FakeSocket.last.end(1006);
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY, part('f-1', 1, 2, 'AwQF', 6));
  assert.deepEqual(told.of('media'), []);
});

test('parts that cannot be are ignored', () => {
  const { told } = readyClient();
  for (const [number, parts] of [
    [-1, 2],
    [2, 2],
    [0.5, 2],
    [0, 0],
    [0, -1],
    [0, 1.5],
    [0, 2049],
  ] as const) {
    FakeSocket.last.receive(part('f-1', number, parts, 'AAEC', 3));
  }
  assert.deepEqual(told.take(), []);
});

test('a file with another number of parts begins again', () => {
  const { told } = readyClient();
  FakeSocket.last.receive(
    part('f-1', 0, 3, 'AAEC', 9),
    part('f-1', 0, 2, 'BAUG', 6),
    part('f-1', 1, 2, 'BwgJ', 6),
    part('f-1', 2, 3, 'AAEC', 9),
  );
  assert.deepEqual(
    told.of('media').map((media) => media.data),
    ['BAUGBwgJ'],
  );
});

test('bounds: eight files at a time, each of max_media_bytes', () => {
  const { told } = readyClient();
  FakeSocket.last.receive({ ...READY, capabilities: { ...READY.capabilities, max_media_bytes: 6 } });
  told.take();
  for (let n = 1; n <= 9; n++) FakeSocket.last.receive(part(`f-${n}`, 0, 2, 'AAEC', 6));
  for (let n = 1; n <= 9; n++) FakeSocket.last.receive(part(`f-${n}`, 1, 2, 'AwQF', 6));
  assert.deepEqual(
    told.of('media').map((media) => media.id),
    ['f-1', 'f-2', 'f-3', 'f-4', 'f-5', 'f-6', 'f-7', 'f-8'],
  );
  told.take();
  FakeSocket.last.receive(part('f-10', 0, 2, 'AAEC', 7), part('f-10', 1, 2, 'AwQFBg==', 7));
  assert.deepEqual(told.of('media'), []);
});

test('rate_limited is told with its delay', () => {
  const { told } = readyClient();
  const error = { code: 'rate_limited', message: 'slow down', fatal: false, id: 'm-1', retry_after_ms: 1500 };
  FakeSocket.last.receive({ t: 'error', ...error });
  assert.deepEqual(told.take(), [['error', error]]);
});

test('onDelivered: a delivery has reached its device', () => {
  const { client, told } = readyClient();
  const id = client.deliver({ target: 'mobile:tel-2', text: 'hi' });
  FakeSocket.last.receive({ t: 'delivered', id, device: 'tel-2' });
  assert.deepEqual(told.take(), [['delivered', { id, device: 'tel-2' }]]);
});
