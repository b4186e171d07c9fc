// Conversations with the gateway of this tree, with the package in both module formats.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import type * as hermes from 'hermes-mobile-client';
import { base64ToBytes, type HermesEvent } from 'hermes-mobile-client';
import { realClient } from './support/client.ts';
import { formats } from './support/formats.ts';
import { Gateway, TOKEN } from './support/gateway.ts';
import { noise } from './support/noise.ts';
import type { Recorder } from './support/recorder.ts';

const gateway = await Gateway.start({ MOBILE_EXTRA_TOKENS: 'tel-bound=token-of-tel-bound' });
after(() => gateway.stop());
const { url } = gateway;

/** What the agent says, until it has said all. */
async function reply(told: Recorder): Promise<string> {
  let text = '';
  await told.next('message', (message) => {
    text += message.text;
    return message.final;
  });
  return text;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

for (const [format, { HermesClient }] of formats) {
  test(`${format}: ready, a text, its answer, and what the agent's face does meanwhile`, async (t) => {
    const { client, told } = realClient(t, { url, user: { id: 'u-1', name: 'Анна' } }, HermesClient);
    client.connect();
    const ready = await told.next('ready');
    assert.equal(ready.v, 1);
    assert.equal(ready.session, `mobile:${ready.device.id}`);
    assert.equal(ready.device.name, 'Телефон');
    assert.deepEqual(ready.capabilities.prompts, ['exec_approval', 'slash_confirm', 'clarify']);
    assert.equal(ready.capabilities.max_text_chars, 12_000);
    told.take();
    client.sendTyping();
    client.sendText('привет, 👩‍👩‍👧‍👦');
    assert.equal(await reply(told), 'привет, 👩‍👩‍👧‍👦');
    await told.next('typingStop');
    assert.deepEqual(
      told.take().map(([name, data]) => (name === 'avatar' ? data : name)),
      ['thinking', 'typing', 'message', 'speaking', 'typingStop'],
    );
  });

  test(`${format}: a streamed reply grows by edits`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    client.sendText('/stream раз два три');
    const first = await told.next('message');
    const last = await told.next('messageEdit', (message) => message.final);
    assert.equal(first.final, false);
    assert.equal(last.id, first.id);
    assert.equal(last.text, 'раз два три');
    assert.ok(last.text.startsWith(first.text));
  });

  test(`${format}: a long reply comes in pieces`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    client.sendText('/long 9000');
    assert.equal([...(await reply(told))].length, 9000);
    const pieces = told.of('message');
    assert.deepEqual(
      pieces.map((piece) => [piece.index, piece.total, piece.final]),
      pieces.map((_, i) => [i, pieces.length, i === pieces.length - 1]),
    );
    assert.ok(pieces.length >= 3);
  });

  test(`${format}: a card for a command`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    client.sendText('/approve rm -rf "x"');
    const card = await told.next('prompt');
    assert.equal(card.kind, 'exec_approval');
    assert.equal(card.command, 'rm -rf "x"');
    assert.ok(card.description);
    assert.deepEqual(
      card.options.map((option) => option.id),
      ['once', 'session', 'always', 'deny'],
    );
    client.answerPrompt(card.id, 'SESSION');
    assert.deepEqual(await told.next('promptDone'), { id: card.id, option_id: 'session' });
    assert.equal(await reply(told), 'exec_approval: session');
  });

  test(`${format}: a card with a question, answered freely, and one with a choice`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    client.sendText('/ask Чай? | чёрный | зелёный');
    client.answerPrompt((await told.next('prompt')).id, 'other', 'кофе');
    assert.equal((await told.next('promptDone')).option_id, 'other');
    assert.equal(await reply(told), 'clarify: other: кофе');
    client.sendText('/ask Чай? | чёрный | зелёный');
    client.answerPrompt((await told.next('prompt')).id, 'c1');
    assert.equal((await told.next('promptDone')).option_id, 'c1');
  });

  test(`${format}: a value that the card does not know becomes the safe one; an unknown card has expired`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    client.sendText('/confirm really?');
    client.answerPrompt((await told.next('prompt')).id, 'maybe');
    assert.equal((await told.next('promptDone')).option_id, 'cancel');
    client.answerPrompt('no-such-card', 'once');
    assert.deepEqual(await told.next('promptDone'), { id: 'no-such-card', expired: true });
  });

  test(`${format}: files of every kind go up and come back`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    const bytes = noise(3000);
    const dir = mkdtempSync(join(tmpdir(), 'hermes-'));
    t.after(() => rmSync(dir, { recursive: true }));
    writeFileSync(join(dir, 'a.gif'), bytes);
    const sends: [string, () => string][] = [
      ['image', () => client.sendImage(bytes, { filename: 'a.png' })],
      ['image', () => client.sendImage({ path: join(dir, 'a.gif') })],
      ['document', () => client.sendDocument(bytes, { filename: 'отчёт.pdf' })],
      ['voice', () => client.sendVoice(bytes, { filename: 'a.ogg' })],
      ['video', () => client.sendMedia('video', bytes, { filename: 'a.mp4' })],
      ['voice', () => client.sendAudio(Buffer.from(bytes).toString('base64'), 'ogg')],
    ];
    for (const [kind, send] of sends) {
      const id = send();
      const media = await told.next('media');
      assert.equal(media.kind, kind);
      assert.equal(media.reply_to, id);
      assert.equal(media.size, bytes.length);
      assert.deepEqual(base64ToBytes(media.data!), bytes);
    }
    assert.deepEqual(
      told.of('media').map((media) => media.mime),
      ['image/png', 'image/gif', 'application/pdf', 'audio/ogg', 'video/mp4', 'audio/ogg'],
    );
  });

  test(`${format}: 8 MiB up and down, with progress both ways`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    const bytes = noise(8 * 1024 * 1024);
    const steps: [number, number][] = [];
    client.sendDocument(bytes, { filename: 'big.bin', onProgress: (...step) => steps.push(step) });
    const media = await told.next('media');
    assert.equal(sha256(base64ToBytes(media.data!)), sha256(bytes));
    assert.match(media.caption, new RegExp(`^document big.bin 8388608 sha256:${sha256(bytes)}$`));
    const marks = [3145728, 6291456, 8388608];
    assert.deepEqual(
      steps,
      marks.map((mark) => [mark, 8388608]),
    );
    assert.deepEqual(
      told.of('mediaProgress').map((progress) => progress.received),
      marks.slice(0, 2),
    );
    assert.equal(told.of('media').length, 1);
  });

  test(`${format}: what the gateway does not take is told with its id, and the connection goes on`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    const wrong: [string, string][] = [
      ['bad_frame', client.sendText('  ')],
      ['too_big', client.sendText('x'.repeat(12_001))],
      ['unsupported_frame', client.sendAudio('AAEC', 'mp3' as 'ogg')],
    ];
    for (const [code, id] of wrong) {
      const error = await told.next('error');
      assert.deepEqual([error.code, error.id, error.fatal], [code, id, false]);
      assert.ok(error.message);
    }
    client.sendText('/fail');
    assert.equal((await told.next('error')).code, 'internal_error');
    client.sendText('still here');
    assert.equal(await reply(told), 'still here');
  });

  test(`${format}: ping, and an id that comes twice`, async (t) => {
    const { client, told } = realClient(t, { url }, HermesClient);
    client.connect();
    await told.state('connected');
    client.sendText('once', 'm-1');
    client.sendText('once', 'm-1');
    client.acknowledge('a-1');
    client.ping();
    const pong = await told.next('pong');
    assert.ok(pong.rtt_ms! >= 0);
    client.sendText('last');
    await told.next('message', (message) => message.text === 'last');
    assert.equal(told.of('message').length, 2);
  });

  test(`${format}: a wrong token is refused for good`, async (t) => {
    const { client, told } = realClient(t, { url, token: 'wrong' }, HermesClient);
    client.connect();
    await told.state('failed');
    const last = await told.next('error');
    assert.deepEqual(
      told.all.map(([name, data]) => (name === 'error' ? [data.code, data.fatal] : data)),
      ['connecting', ['auth_failed', true], 'failed', ['auth_failed', true]],
    );
    assert.equal(last.message, 'Шлюз отказал в доступе');
  });
}

test("forbidden: the gateway's own code first, then auth_failed", async (t) => {
  const { client, told } = realClient(t, {
    url,
    token: 'token-of-tel-bound',
    device: { id: 'somebody-else', name: '', platform: '', appVersion: '' },
  });
  client.connect();
  await told.state('failed');
  await told.next('error');
  assert.deepEqual(
    told.of('error').map((error) => error.code),
    ['forbidden', 'auth_failed'],
  );
});

test('another instance takes over: the first one stops, and the second one stays', async (t) => {
  const device = { id: 'tel-twice', name: '', platform: '', appVersion: '' };
  const first = realClient(t, { url, device });
  first.client.connect();
  await first.told.state('connected');
  const second = realClient(t, { url, device });
  second.client.connect();
  assert.equal((await first.told.next('error')).code, 'replaced');
  assert.equal(first.told.of('state').at(-1), 'failed');
  await second.told.state('connected');
  second.client.sendText('mine');
  assert.equal(await reply(second.told), 'mine');
});

test('deliver: to another device, confirmed; to one that is offline, refused with its id', async (t) => {
  const sender = realClient(t, { url });
  const target = realClient(t, { url, device: { id: 'tel-target', name: '', platform: '', appVersion: '' } });
  for (const { client, told } of [sender, target]) {
    client.connect();
    await told.state('connected');
  }
  const id = sender.client.deliver({
    target: 'mobile:tel-target',
    text: 'Доброе утро',
    media: { kind: 'document', source: 'AAEC', filename: 'plan.pdf' },
  });
  assert.deepEqual(await sender.told.next('delivered'), { id, device: 'tel-target' });
  assert.equal(await reply(target.told), 'Доброе утро');
  const media = await target.told.next('media');
  assert.deepEqual([media.filename, media.mime, media.data], ['plan.pdf', 'application/pdf', 'AAEC']);

  const lost = sender.client.deliver({ target: 'nobody', text: 'hi' });
  const error = await sender.told.next('error');
  assert.deepEqual([error.code, error.id], ['device_offline', lost]);
});

test('rate_limited comes with its delay', async (t) => {
  const slow = await Gateway.start({
    MOBILE_QUOTA_DEVICE: 'frames=1,bytes=2MiB,burst-frames=3,burst-bytes=32MiB',
  });
  t.after(() => slow.stop());
  const { client, told } = realClient(t, { url: slow.url });
  client.connect();
  await told.state('connected');
  for (let n = 0; n < 10; n++) client.sendText(`${n}`);
  const error = await told.next('error');
  assert.equal(error.code, 'rate_limited');
  assert.ok(error.retry_after_ms! > 0);
  assert.ok(error.id);
});

test('events: a conversation in one loop', async (t) => {
  const { client } = realClient(t, { url, queue: true });
  const events: AsyncIterable<HermesEvent> = client.events();
  client.connect();
  client.sendText('/stream раз два');
  let shown = '';
  for await (const event of events) {
    if (event.type !== 'message' && event.type !== 'messageEdit') continue;
    shown = event.data.text;
    if (event.data.final) client.disconnect();
  }
  assert.equal(shown, 'раз два');
});

test('nothing but the language, WebSocket and timers is needed, as in React Native', async (t) => {
  const exports = {} as typeof hermes;
  const file = createRequire(import.meta.url).resolve('hermes-mobile-client');
  const world = { WebSocket, setTimeout, clearTimeout, module: { exports } };
  runInNewContext(readFileSync(file, 'utf8'), world);
  const { HermesClient } = world.module.exports;
  const { client, told } = realClient(t, { url }, HermesClient);
  client.connect();
  await told.state('connected');
  client.sendImage('AAEC', { filename: 'фото.png' });
  const media = await told.next('media');
  assert.deepEqual([media.filename, media.data], ['фото.png', 'AAEC']);
  client.sendImage(Uint8Array.of(9, 0, 1, 2).subarray(1)); // of this realm, which is not the client's
  assert.equal((await told.next('media')).data, 'AAEC');
  assert.throws(() => client.sendImage({ path: file }), /Node only/);
});

test('the process ends by itself after disconnect', () => {
  const script = `
    import { HermesClient } from 'hermes-mobile-client';
    const client = new HermesClient({ url: '${url}', token: '${TOKEN}',
      device: { id: 'tel-script', name: '', platform: '', appVersion: '' },
      handlers: { onReady: () => client.sendText('hi'), onMessage: (m) => { console.log(m.text); client.disconnect(); } } });
    client.connect();`;
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  });
  assert.deepEqual([stdout, status], ['hi\n', 0]);
});
