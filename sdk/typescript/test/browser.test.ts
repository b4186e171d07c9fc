// The package in a browser: the module as it is packed, in headless Chromium, against the gateway.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium, type Page } from 'playwright-core';
import { Gateway, TOKEN } from './support/gateway.ts';
import { Line } from './support/line.ts';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const skip = existsSync(CHROMIUM) ? false : `no ${CHROMIUM}: install Debian's chromium, or set CHROMIUM`;

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

/** A page on an origin of its own that has the package as `hermes`. */
async function open(): Promise<Page> {
  const file = fileURLToPath(import.meta.resolve('hermes-mobile-client'));
  const server = createServer((request, response) => {
    const module = request.url === '/hermes.js';
    response.setHeader('content-type', module ? 'text/javascript' : 'text/html');
    response.end(
      module
        ? readFileSync(file)
        : '<script type="module">import * as hermes from "/hermes.js"; window.hermes = hermes</script>',
    );
  });
  server.listen(0, '127.0.0.1');
  after(() => server.close());
  const profile = mkdtempSync(join(tmpdir(), 'hermes-chromium-'));
  const context = await chromium.launchPersistentContext(profile, { executablePath: CHROMIUM, args: FLAGS });
  after(async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => assert.fail(error));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await page.waitForFunction('window.hermes');
  return page;
}

const gateway = skip ? undefined : await Gateway.start();
const line = gateway && (await Line.start(gateway.port));
const page = skip ? undefined : await open();
after(async () => {
  await line?.stop();
  await gateway?.stop();
});

/** Runs the body of an async function in the page, which has `make` for a client and `next` to wait for an event. */
function inPage(body: string): Promise<unknown> {
  const helpers = `
    const { hermes } = window;
    const make = (id, more) => new hermes.HermesClient({
      url: '${line?.url}', token: '${TOKEN}', maxBackoffMs: 50,
      device: { id, name: 'Браузер', platform: 'web', appVersion: '1' }, ...more });
    const next = async (events, type, fits = () => true) => {
      for (;;) {
        const { value, done } = await events.next();
        if (done) throw new Error('no ' + type);
        if (value.type === type && fits(value.data)) return value.data;
      }
    };`;
  return page!.evaluate(`(async () => {${helpers}${body}})()`);
}

test('chromium: a streamed conversation, a card, a photo, a reconnect', { skip }, async () => {
  await page!.exposeFunction('cut', () => line!.cut());
  const result = await inPage(`
    const client = make('web-1');
    const events = client.events();
    client.connect();
    const ready = await next(events, 'ready');
    client.sendText('/stream раз два');
    const streamed = await next(events, 'messageEdit', (m) => m.final);
    client.sendText('/approve ls');
    client.answerPrompt((await next(events, 'prompt')).id, 'once');
    const card = await next(events, 'promptDone');
    client.sendImage(Uint8Array.of(0, 1, 2), { filename: 'a.png' });
    const photo = await next(events, 'media');
    client.ping();
    const pong = await next(events, 'pong');
    await window.cut();
    await next(events, 'state', ({ state }) => state === 'reconnecting');
    await next(events, 'ready');
    client.sendText('again');
    const again = await next(events, 'message', (m) => m.text === 'again');
    client.disconnect();
    return [ready.session, streamed.text, card.option_id, photo.data, photo.mime, pong.rtt_ms >= 0, again.text];`);
  assert.deepEqual(result, ['mobile:web-1', 'раз два', 'once', 'AAEC', 'image/png', true, 'again']);
});

test('chromium: 8 MiB up and down, with progress', { skip }, async () => {
  const result = await inPage(`
    const client = make('web-2', { queue: true });
    const events = client.events();
    client.connect();
    const bytes = new Uint8Array(8 << 20).map((_, i) => (i * i) >> 3);
    const steps = [];
    client.sendDocument(bytes, { filename: 'big.bin', onProgress: (sent) => steps.push(sent) });
    const media = await next(events, 'media');
    client.disconnect();
    const back = hermes.base64ToBytes(media.data);
    return [back.length, back.every((byte, i) => byte === bytes[i]), steps];`);
  assert.deepEqual(result, [8388608, true, [3145728, 6291456, 8388608]]);
});

test('chromium: a refusal is final; a path cannot be read', { skip }, async () => {
  const result = await inPage(`
    const client = make('web-3', { token: 'wrong' });
    const events = client.events();
    client.connect();
    const told = [];
    for await (const { type, data } of events) told.push(data.code ?? data.state);
    try {
      client.sendImage({ path: '/tmp/chart.png' });
    } catch (error) {
      told.push(error.message);
    }
    return told;`);
  assert.deepEqual(result, [
    ...['connecting', 'auth_failed', 'failed', 'auth_failed'],
    '{ path } can be read on Node only; give the bytes or their base64',
  ]);
});
