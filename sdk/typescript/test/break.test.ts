// Lines that break, through a proxy that cuts them where the test says.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { base64ToBytes } from 'hermes-mobile-client';
import { realClient } from './support/client.ts';
import { Gateway } from './support/gateway.ts';
import { Line } from './support/line.ts';
import { noise } from './support/noise.ts';

const MIB = 1024 * 1024;

const gateway = await Gateway.start();
const line = await Line.start(gateway.port);
after(async () => {
  await line.stop();
  await gateway.stop();
});
const { url } = line;

test('a line that is cut: told, made again, and the conversation goes on', async (t) => {
  const { client, told } = realClient(t, { url });
  client.connect();
  await told.state('connected');
  line.cut();
  await told.state('reconnecting');
  await told.state('connected');
  await told.next('ready');
  client.sendText('again');
  assert.equal((await told.next('message')).text, 'again');
  assert.deepEqual(
    told.of('error').map((error) => [error.code, error.fatal]),
    told.of('error').map(() => ['transport', false]),
  );
  assert.deepEqual(told.of('state'), ['connecting', 'connected', 'reconnecting', 'connected']);
});

test('a card that was open when the line was cut comes again and can be answered', async (t) => {
  const { client, told } = realClient(t, { url });
  client.connect();
  await told.state('connected');
  client.sendText('/approve ls');
  const card = await told.next('prompt');
  line.cut();
  const again = await told.next('prompt');
  assert.equal(again.id, card.id);
  client.answerPrompt(again.id, 'deny');
  assert.equal((await told.next('message')).text, 'exec_approval: deny');
});

test('an upload that is cut half-way is sent again with the same id, and arrives once', async (t) => {
  const { client, told } = realClient(t, { url });
  client.connect();
  await told.state('connected');
  const bytes = noise(8 * MIB);
  const options = { messageId: 'f-1', filename: 'a.bin' };
  line.holdUp = 6 * MIB; // of base64
  const sent = await new Promise((resolve) => client.sendDocument(bytes, { ...options, onProgress: resolve }));
  assert.equal(sent, 3 * MIB);
  line.cut();
  await told.state('reconnecting');
  await told.state('connected');

  const steps: number[] = [];
  client.sendDocument(bytes, { ...options, onProgress: (sent) => steps.push(sent) });
  const media = await told.next('media');
  assert.equal(media.reply_to, 'f-1');
  assert.deepEqual(base64ToBytes(media.data!), bytes);
  assert.deepEqual(steps, [3 * MIB, 6 * MIB, 8 * MIB]);

  client.sendDocument(bytes, options);
  client.sendText('after it');
  await told.next('message', (message) => message.text === 'after it');
  assert.equal(told.of('media').length, 1);
});

test('a file that is cut on its way down is never told in part', async (t) => {
  const { client, told } = realClient(t, { url });
  client.connect();
  await told.state('connected');
  line.holdDown = 5 * MIB; // of base64
  client.sendText('/send document 8388608');
  assert.deepEqual((await told.next('mediaProgress')).received, 3 * MIB);
  line.cut();
  await told.state('connected');
  client.sendText('/send document 4194304');
  const media = await told.next('media');
  assert.equal(media.size, 4 * MIB);
  assert.equal(base64ToBytes(media.data!).length, 4 * MIB);
  assert.equal(told.of('media').length, 1);
});

test('queue: what was sent while the line was down goes out when it is back', async (t) => {
  const { client, told } = realClient(t, { url, queue: true });
  client.connect();
  client.sendText('before open');
  await told.next('message', (message) => message.text === 'before open');
  line.cut();
  await told.state('reconnecting');
  client.sendText('meanwhile');
  await told.next('message', (message) => message.text === 'meanwhile');
});

test('a gateway that stops is waited for, attempt by attempt', async (t) => {
  const first = await Gateway.start();
  t.after(() => first.stop());
  const { client, told } = realClient(t, { url: first.url });
  client.connect();
  await told.state('connected');
  await first.stop();
  await told.next('state', (_, detail) => detail === 'попытка 3');
  assert.equal((await told.next('error')).code, 'transport');
  const second = await Gateway.start({ MOBILE_PORT: String(first.port) });
  t.after(() => second.stop());
  await told.state('connected');
  client.sendText('back');
  assert.equal((await told.next('message')).text, 'back');
});

test('disconnect while an attempt is under way', async (t) => {
  const { client, told } = realClient(t, { url });
  client.connect();
  client.disconnect();
  client.connect();
  await told.state('connected');
  assert.deepEqual(told.of('state'), ['connecting', 'idle', 'connecting', 'connected']);
  assert.deepEqual(told.of('error'), []);
});
