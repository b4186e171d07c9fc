// The wire vectors, which every client of the protocol plays: see sdk/vectors/README.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { base64ToBytes, type HermesClient, type HermesEvent } from 'hermes-mobile-client';
import { FakeSocket, fakeClient, readyClient } from './support/socket.ts';

type Json = Record<string, unknown>;

interface Call {
  name: string;
  call: { verb: string; args: Json };
  frames?: Json[];
  refused?: true;
  gateway?: string;
}

interface Telling {
  name: string;
  frames: unknown[];
  events: Json[];
}

function vectors<T extends { name: string }>(name: string): T[] {
  const cases: T[] = JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), 'utf8'));
  assert.equal(new Set(cases.map((one) => one.name)).size, cases.length);
  return cases;
}

// biome-ignore lint/suspicious/noExplicitAny: arguments come from a file
const verbs: Record<string, (client: HermesClient, args: any) => void> = {
  text: (client, { id, text }) => client.sendText(text, id),
  audio: (client, { id, format, data, text }) => client.sendAudio(data, format, text, id),
  media: (client, { id, kind, data, mime, filename, caption, chunk_bytes }) =>
    client.sendMedia(kind, base64ToBytes(data), {
      ...{ messageId: id, mime, filename, caption, chunkBytes: chunk_bytes },
    }),
  answer: (client, { prompt_id, option_id, text }) => client.answerPrompt(prompt_id, option_id, text),
  typing: (client) => client.sendTyping(),
  ping: (client) => client.ping(),
  ack: (client, { id }) => client.acknowledge(id),
  deliver: (client, { id, target, text, media }) =>
    client.deliver({ messageId: id, target, text, media: media && { ...media, source: media.data } }),
};

/** Puts the frame's own value where any value of a type will do. */
function settle(wanted: Json, sent: Json): Json {
  const out: Json = {};
  for (const [name, value] of Object.entries(wanted)) {
    const type = typeof value === 'object' && value !== null && '$type' in value ? value.$type : undefined;
    out[name] = type && typeof sent[name] === type ? sent[name] : value;
  }
  return out;
}

for (const { name, call, frames, refused } of vectors<Call>('calls')) {
  test(`calls: ${name}`, () => {
    if (call.verb === 'hello') {
      const { app_version, ...device } = call.args.device as Json;
      const options = { ...call.args, device: { ...device, appVersion: app_version } };
      const { client } = fakeClient(options as object);
      client.connect();
      FakeSocket.last.open();
    } else {
      const { client } = readyClient();
      const act = () => verbs[call.verb]?.(client, call.args);
      if (refused) assert.throws(act, Error);
      else act();
    }
    const sent = FakeSocket.last.frames();
    const wanted = (frames ?? []).map((frame, i) => settle(frame, sent[i] ?? {}));
    assert.deepEqual(sent, wanted);
  });
}

test('calls: every verb has its cases', () => {
  const met = new Set(vectors<Call>('calls').map((one) => one.call.verb));
  assert.deepEqual(met, new Set(['hello', ...Object.keys(verbs)]));
});

/** An event in the neutral form of the vectors, or nothing for what only this client tells. */
function neutral(event: HermesEvent): Json | undefined {
  switch (event.type) {
    case 'state':
    case 'mediaProgress':
      return undefined;
    case 'messageEdit': {
      const { edit, ...data } = event.data;
      return { event: 'edit', ...data };
    }
    case 'media': {
      const { part, parts, final, ...data } = event.data;
      return { event: 'media', ...data };
    }
    case 'pong': {
      const { rtt_ms, ...data } = event.data;
      return { event: 'pong', ...data };
    }
    case 'avatar':
      return { event: 'avatar', state: event.data };
    case 'typing':
      return { event: 'typing' };
    case 'typingStop':
      return { event: 'typing_stop' };
    case 'promptDone':
      return { event: 'prompt_done', ...event.data };
    default:
      return { event: event.type, ...event.data };
  }
}

for (const { name, frames, events } of vectors<Telling>('events')) {
  test(`events: ${name}`, async () => {
    const { client } = fakeClient();
    client.connect();
    FakeSocket.last.open();
    const reader = client.events();
    FakeSocket.last.receive(...frames);
    client.disconnect();
    const told: Json[] = [];
    for await (const event of reader) {
      const one = neutral(event);
      if (one) told.push(one);
    }
    assert.deepEqual(told, events);
  });
}
