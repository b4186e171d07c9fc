// Applications as the reference of version 1.0 has them written: all options in the constructor, handlers that know the
// client, and sends directly after connect, of which onError hears that they came too early.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { HermesClient, HermesEvent } from 'hermes-mobile-client';
import { formats } from './support/formats.ts';
import { Gateway, TOKEN } from './support/gateway.ts';

const gateway = await Gateway.start();
after(() => gateway.stop());
const device = { id: 'app-1', name: 'Телефон', platform: 'android', appVersion: '1.0.0' };
const common = { url: gateway.url, token: TOKEN, device };

/** Waits for an event that comes after this call. */
async function heard(client: HermesClient, fits: (event: HermesEvent) => boolean): Promise<void> {
  for await (const event of client.events()) if (fits(event)) return;
  assert.fail('it did not come');
}

for (const [format, { HermesClient }] of formats) {
  test(`${format}: a chat`, async (t) => {
    const screen: unknown[] = [];
    const client = new HermesClient({
      ...common,
      handlers: {
        onReady: (ready) => screen.push(ready.session),
        onState: (state, detail) => screen.push(state + (detail ?? '')),
        onMessage: (message) => screen.push(message.final),
        onMessageEdit: (message) => message.final && screen.push(message.text),
        onAvatar: (state) => screen.push(state),
        onTyping: () => screen.push('…'),
        onTypingStop: () => screen.push('.'),
        onError: (error) => screen.push([error.code, error.message, error.fatal]),
      },
      maxBackoffMs: 15000,
    });
    t.after(() => client.disconnect());
    const ready = heard(client, (event) => event.type === 'ready');
    client.connect();
    client.sendText('слишком рано');
    await ready;
    assert.deepEqual(screen.splice(0), [
      ...['connecting', ['offline', 'Нет связи со шлюзом', false]],
      ...['connected', 'mobile:app-1'],
    ]);
    const answered = heard(client, (event) => event.type === 'typingStop');
    client.sendText('/stream раз два');
    await answered;
    assert.deepEqual(screen, ['thinking', '…', false, 'speaking', 'раз два', '.']);
  });

  test(`${format}: a card`, async (t) => {
    const screen: unknown[] = [];
    const client = new HermesClient({
      ...common,
      handlers: {
        onPrompt: (prompt) => {
          screen.push(prompt.options.map((option) => option.label).length);
          client.answerPrompt(prompt.id, 'always');
        },
        onPromptDone: (done) => screen.push(done.expired ? 'expired' : (done.option_id ?? '')),
      },
    });
    t.after(() => client.disconnect());
    const ready = heard(client, (event) => event.type === 'ready');
    client.connect();
    await ready;
    const closed = heard(client, (event) => event.type === 'promptDone');
    client.sendText('/approve ls');
    await closed;
    assert.deepEqual(screen, [4, 'always']);
  });

  test(`${format}: files`, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'hermes-'));
    t.after(() => rmSync(dir, { recursive: true }));
    for (const name of ['chart.png', 'answer.ogg', 'clip.mp4']) writeFileSync(join(dir, name), name);
    const screen: unknown[] = [];
    const client = new HermesClient({
      ...common,
      handlers: {
        onMedia: (media) => {
          const source = media.data ? `data:${media.mime};base64,${media.data}` : media.url;
          screen.push([media.kind, source, media.filename]);
        },
      },
    });
    t.after(() => client.disconnect());
    const send = () => {
      client.sendImage({ path: join(dir, 'chart.png') }, { caption: 'график' });
      client.sendDocument(Uint8Array.of(0, 1, 2), { filename: 'отчёт.pdf' });
      client.sendVoice({ path: join(dir, 'answer.ogg') });
      client.sendMedia('video', { path: join(dir, 'clip.mp4') });
    };
    const ready = heard(client, (event) => event.type === 'ready');
    client.connect();
    send(); // too early
    await ready;
    const last = heard(client, (event) => event.type === 'media' && event.data.kind === 'video');
    send();
    await last;
    assert.deepEqual(screen, [
      ['image', 'data:image/png;base64,Y2hhcnQucG5n', ''],
      ['document', 'data:application/pdf;base64,AAEC', 'отчёт.pdf'],
      ['voice', 'data:audio/ogg;base64,YW5zd2VyLm9nZw==', ''],
      ['video', 'data:video/mp4;base64,Y2xpcC5tcDQ=', ''],
    ]);
  });
}
