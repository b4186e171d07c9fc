// What the methods put on the wire, and what they refuse. The frames themselves are in the vectors.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type HermesClient, MEDIA_CHUNK_BYTES } from 'hermes-mobile-client';
import { FakeSocket, fakeClient, OFFLINE, READY, readyClient } from './support/socket.ts';

const ID = /^[0-9a-z]+-[0-9a-z]{10}$/;

/** Every method that sends, as a call. */
const CALLS: Record<string, (client: HermesClient) => unknown> = {
  sendText: (client) => client.sendText('hi'),
  sendAudio: (client) => client.sendAudio('AAEC', 'ogg'),
  sendTyping: (client) => client.sendTyping(),
  acknowledge: (client) => client.acknowledge('a-1'),
  ping: (client) => client.ping(),
  answerPrompt: (client) => client.answerPrompt('p-1', 'once'),
  sendMedia: (client) => client.sendMedia('video', 'AAEC'),
  sendImage: (client) => client.sendImage('AAEC'),
  sendDocument: (client) => client.sendDocument('AAEC'),
  sendVoice: (client) => client.sendVoice('AAEC'),
  deliver: (client) => client.deliver({ text: 'hi' }),
};

test('offline: no method throws, each tells onError once', () => {
  for (const [name, call] of Object.entries(CALLS)) {
    const { client, told } = fakeClient();
    const offline = (when: string) => {
      told.take();
      call(client);
      assert.deepEqual(told.take(), [['error', OFFLINE]], `${name} ${when}`);
    };
    offline('before connect');
    client.connect();
    offline('before the socket is open');
    FakeSocket.last.open();
    FakeSocket.last.readyState = 2;
    offline('while the socket closes');
    FakeSocket.last.end(1006);
    offline('after it closed');
    client.disconnect();
    offline('after disconnect');
    client.connect();
    FakeSocket.last.open();
    FakeSocket.last.end(1008);
    offline('after a refusal');
  }
});

test('between open and ready every method sends', () => {
  for (const [name, call] of Object.entries(CALLS)) {
    const { client, told } = fakeClient();
    client.connect();
    FakeSocket.last.open();
    call(client);
    const [hello, frame, ...more] = FakeSocket.last.frames();
    assert.equal(hello?.t, 'hello');
    assert.ok(frame, name);
    assert.deepEqual(more, []);
    assert.deepEqual(told.of('error'), []);
  }
});

test('methods with an id return it, made anew or as it was given', () => {
  const { client } = readyClient();
  const made = [
    client.sendText('hi'),
    client.sendAudio('AAEC', 'wav'),
    client.sendMedia('video', 'AAEC'),
    client.sendImage('AAEC'),
    client.sendDocument('AAEC'),
    client.sendVoice('AAEC'),
    client.deliver({ text: 'hi' }),
  ];
  const sent = FakeSocket.last.frames().map((frame) => frame.id);
  assert.deepEqual(made, sent);
  assert.equal(new Set(made).size, made.length);
  for (const id of made) assert.match(id, ID);

  const messageId = 'm-1';
  const given = [
    client.sendText('hi', messageId),
    client.sendAudio('AAEC', 'wav', undefined, messageId),
    client.sendMedia('video', 'AAEC', { messageId }),
    client.sendImage('AAEC', { messageId }),
    client.sendDocument('AAEC', { messageId }),
    client.sendVoice('AAEC', { messageId }),
    client.deliver({ text: 'hi', messageId }),
  ];
  assert.deepEqual(new Set([...given, ...FakeSocket.last.frames().map((frame) => frame.id)]), new Set([messageId]));
});

test('an id is returned offline, too', () => {
  const { client } = fakeClient();
  assert.match(client.sendText('hi'), ID);
  assert.equal(client.sendImage('AAEC', { messageId: 'm-1' }), 'm-1');
});

test('sendAudio does not look at the format', () => {
  const { client } = readyClient();
  client.sendAudio('AAEC', 'mp3' as 'ogg', '');
  const { id, ...frame } = FakeSocket.last.frames()[0]!;
  assert.deepEqual(frame, { t: 'audio', format: 'mp3', data: 'AAEC' });
  assert.ok(id);
});

test('ping sends the time of the clock', () => {
  const { client } = readyClient();
  const before = Date.now();
  client.ping();
  const { ts } = FakeSocket.last.frames()[0]!;
  assert.ok(Number(ts) >= before && Number(ts) <= Date.now());
});

test('answerPrompt throws without a card, and without an answer', () => {
  const { client, told } = readyClient();
  assert.throws(() => client.answerPrompt('', 'once'), Error);
  assert.throws(() => client.answerPrompt('p-1'), Error);
  assert.throws(() => client.answerPrompt('p-1', '', ''), Error);
  assert.deepEqual(FakeSocket.last.frames(), []);
  assert.deepEqual(told.take(), []);
});

test('answerPrompt writes the option in lower case', () => {
  const { client } = readyClient();
  client.answerPrompt('P-1', 'Once');
  client.answerPrompt('P-1', 'OTHER', 'Tea');
  assert.deepEqual(FakeSocket.last.frames(), [
    { t: 'prompt', prompt_id: 'P-1', option_id: 'once' },
    { t: 'prompt', prompt_id: 'P-1', option_id: 'other', text: 'Tea' },
  ]);
});

test('sendMedia throws for an unknown kind, an empty file and a useless chunkBytes', () => {
  const { client, told } = readyClient();
  assert.throws(() => client.sendMedia('voice', 'AAEC'), /image, video, document, audio/);
  assert.throws(() => client.sendMedia('', 'AAEC'), Error);
  for (const empty of ['', '====', new Uint8Array()]) assert.throws(() => client.sendImage(empty), /empty/);
  for (const chunkBytes of [0, -1, 1.5, Number.NaN]) {
    assert.throws(() => client.sendImage('AAEC', { chunkBytes }), /chunkBytes/);
  }
  assert.deepEqual(FakeSocket.last.frames(), []);
  assert.deepEqual(told.take(), []);
});

test('the kind of each method, and of sendMedia in lower case', () => {
  const { client } = readyClient();
  client.sendImage('AAEC');
  client.sendDocument('AAEC');
  client.sendVoice('AAEC');
  client.sendMedia('VIDEO', 'AAEC');
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.kind),
    ['image', 'document', 'audio', 'video'],
  );
});

test('a string is base64 and never a path', () => {
  const { client } = readyClient();
  client.sendVoice('/tmp/answer.ogg');
  const { data, mime } = FakeSocket.last.frames()[0]!;
  assert.equal(data, '/tmp/answerogg==');
  assert.equal(mime, 'application/octet-stream');
});

test('a source may be base64, bytes, a part of a buffer, or a path', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'hermes-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'график.PNG');
  writeFileSync(path, Uint8Array.of(0, 1, 2));
  const { client } = readyClient();
  client.sendImage('AA EC\n');
  client.sendImage(Uint8Array.of(0, 1, 2));
  client.sendImage(Uint8Array.of(9, 9, 0, 1, 2, 9).subarray(2, 5));
  client.sendImage(new DataView(Uint8Array.of(9, 0, 1, 2).buffer, 1) as unknown as Uint8Array);
  client.sendImage({ path });
  const frames = FakeSocket.last.frames();
  assert.deepEqual(
    frames.map((frame) => frame.data),
    ['AAEC', 'AAEC', 'AAEC', 'AAEC', 'AAEC'],
  );
  assert.equal(frames[4]?.mime, 'image/png');
  assert.equal('filename' in frames[4]!, false);
  assert.throws(() => client.sendImage({ path: join(dir, 'missing') }), /ENOENT/);
});

test('a path without a file system is an error', (t) => {
  const { client } = readyClient();
  t.mock.method(process, 'getBuiltinModule', () => undefined);
  assert.throws(() => client.sendImage({ path: '/tmp/chart.png' }), /Node only/);
});

test('the mime type: given, or that of the file name, or that of the path', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'hermes-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'a.jpg');
  writeFileSync(path, 'x');
  const { client } = readyClient();
  client.sendImage({ path }, { mime: 'image/x-mine', filename: 'b.png' });
  client.sendImage({ path }, { filename: 'b.png' });
  client.sendImage({ path });
  assert.deepEqual(
    FakeSocket.last.frames().map((frame) => frame.mime),
    ['image/x-mine', 'image/png', 'image/jpeg'],
  );
});

test('chunkBytes: a file goes out in parts of so many bytes, 3 MiB of itself', () => {
  const { client } = readyClient();
  const size = 2 * MEDIA_CHUNK_BYTES + 1;
  client.sendDocument(new Uint8Array(size), { messageId: 'f-1', filename: 'a.bin', caption: 'all of it' });
  const frames = FakeSocket.last.frames();
  assert.deepEqual(
    frames.map(({ data, ...frame }) => [Buffer.from(data as string, 'base64').length, frame]),
    [MEDIA_CHUNK_BYTES, MEDIA_CHUNK_BYTES, 1].map((length, part) => [
      length,
      {
        ...{ t: 'media', id: 'f-1', kind: 'document', mime: 'application/octet-stream', part, parts: 3 },
        ...{ filename: 'a.bin', caption: 'all of it' },
      },
    ]),
  );
});

test('onProgress: after each part that the gateway has read', () => {
  const progress: [number, number][] = [];
  const { client, told } = readyClient();
  client.sendDocument(new Uint8Array(10), { chunkBytes: 4, onProgress: (...step) => progress.push(step) });
  const frames = FakeSocket.last.frames();
  assert.deepEqual(
    frames.map((frame) => frame.t),
    ['media', 'ping', 'media', 'ping', 'media', 'ping'],
  );
  const pongs = frames.filter((frame) => frame.t === 'ping').map(({ ts }) => ({ t: 'pong', ts }));
  assert.deepEqual(progress, []);
  for (const pong of pongs) FakeSocket.last.receive(pong);
  assert.deepEqual(progress.splice(0), [
    [4, 10],
    [8, 10],
    [10, 10],
  ]);
  assert.deepEqual(told.take(), []);
  FakeSocket.last.receive(pongs[0]);
  assert.deepEqual(progress, []);
});

test('onProgress: what was on its way when the connection broke is not told', () => {
  let told = 0;
  const { client } = readyClient();
  client.sendImage('AAEC', { onProgress: () => told++ });
  const ts = FakeSocket.last.frames()[1]?.ts;
  FakeSocket.last.end(1006);
  client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY, { t: 'pong', ts });
  assert.equal(told, 0);
});

test('deliver throws when there is nothing to bring', () => {
  const { client } = readyClient();
  assert.throws(() => client.deliver({ target: 'tel-2' }), Error);
  assert.throws(() => client.deliver({ target: 'tel-2', media: { kind: 'image', source: '' } }), /empty/);
  assert.deepEqual(FakeSocket.last.frames(), []);
});
