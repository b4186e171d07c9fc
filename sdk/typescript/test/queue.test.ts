// The option `queue`: what is sent without a ready connection waits for one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeSocket, fakeClient, OFFLINE, READY, readyClient } from './support/socket.ts';

test('queue: held until ready, then sent in order, before what the callbacks send', () => {
  const { client, told } = fakeClient({ queue: true });
  client.setHandlers({ onReady: () => client.sendText('4') });
  client.connect();
  client.sendText('1');
  FakeSocket.last.open();
  client.sendText('2');
  client.sendImage('AAEC', { chunkBytes: 2 });
  client.answerPrompt('p-1', 'once');
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.t),
    ['hello'],
  );
  FakeSocket.last.receive(READY);
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.text ?? frame.t),
    ['1', '2', 'media', 'media', 'prompt', '4'],
  );
  assert.deepEqual(told.of('error'), []);
});

test('queue: held over attempts, and while a socket closes', () => {
  const { client } = readyClient({ queue: true });
  FakeSocket.last.readyState = 2;
  client.sendText('1');
  FakeSocket.last.end(1006);
  client.sendText('2');
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.end(1006);
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.text),
    [undefined, '1', '2'],
  );
});

test('queue: a connection that is closing when ready comes leaves all to the next one', () => {
  const { client } = fakeClient({ queue: true });
  client.connect();
  FakeSocket.last.open();
  client.sendText('1');
  FakeSocket.last.readyState = 2;
  FakeSocket.last.receive(READY);
  FakeSocket.last.end(1013);
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.equal(FakeSocket.last.frames()[1]?.text, '1');
});

test('queue: typing and ping do not wait', () => {
  const { client, told } = fakeClient({ queue: true });
  client.connect();
  told.take();
  client.sendTyping();
  client.ping();
  assert.deepEqual(told.take(), [
    ['error', OFFLINE],
    ['error', OFFLINE],
  ]);
});

test('queue: nothing waits before connect, after disconnect and after a refusal', () => {
  const { client, told } = fakeClient({ queue: true });
  client.sendText('1');
  client.connect();
  client.sendText('2');
  client.disconnect();
  client.sendText('3');
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.equal(FakeSocket.last.frames().length, 1);
  FakeSocket.last.end(1006);
  client.sendText('4');
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.end(1008);
  client.sendText('5');
  assert.deepEqual(
    told.of('error').map((error) => error.code),
    ['offline', 'offline', 'auth_failed', 'offline'],
  );
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.t),
    ['hello'],
  );
});

test('queue: at most 1000 frames; a file is held as a whole or not at all', () => {
  const { client, told } = fakeClient({ queue: true });
  client.connect();
  for (let n = 0; n < 998; n++) client.sendText('hi');
  told.take();
  client.sendImage('AAECAwQF', { chunkBytes: 2 });
  assert.deepEqual(told.take(), [['error', OFFLINE]]);
  client.sendImage('AAEC', { chunkBytes: 2 });
  assert.deepEqual(told.take(), []);
  client.sendText('one too many');
  assert.deepEqual(told.take(), [['error', OFFLINE]]);
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.equal(FakeSocket.last.frames().length, 1001);
});

test('queue: at most 32 Mi characters', () => {
  const { client, told } = fakeClient({ queue: true });
  client.connect();
  told.take();
  const file = 'A'.repeat(15 * 1024 * 1024);
  client.sendAudio(file, 'wav');
  client.sendAudio(file, 'wav');
  assert.deepEqual(told.take(), []);
  client.sendAudio(file, 'wav');
  assert.deepEqual(told.take(), [['error', OFFLINE]]);
  client.sendText('hi');
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.t),
    ['hello', 'audio', 'audio', 'text'],
  );
  FakeSocket.last.end(1006);
  client.sendAudio(file, 'wav');
  client.sendAudio(file, 'wav');
  assert.deepEqual(told.of('error'), []);
});

test('queue: the progress of a file that waited is told', () => {
  const steps: number[] = [];
  const { client } = fakeClient({ queue: true });
  client.connect();
  client.sendImage('AAEC', { onProgress: (sent) => steps.push(sent) });
  FakeSocket.last.open();
  FakeSocket.last.end(1006);
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  const ts = FakeSocket.last.frames()[2]?.ts;
  FakeSocket.last.receive({ t: 'pong', ts });
  assert.deepEqual(steps, [3]);
});
