// Every member of the API and the test that holds it: no member without a test, no test of a member that is not there.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { REPORT } from './support/api.mjs';

const WRITTEN = 'connect: connect opens the url and says hello when the socket is open';
const TYPES = 'types/esm.mts';

/** Members of version 1.0, as its reference has them. */
const REFERENCE: Record<string, string> = {
  'HermesClient.constructor': 'connect: without handlers and user, too',
  'HermesClient.ready': 'connect: ready: the state first, then onReady, and client.ready is true',
  'HermesClient.setHandlers':
    'connect: setHandlers adds to the callbacks, and takes the place of those of the same name',
  'HermesClient.connect': WRITTEN,
  'HermesClient.disconnect': 'connect: disconnect: idle at once, the socket closed, and nothing more is heard of it',
  'HermesClient.sendText': 'vectors: calls: text',
  'HermesClient.sendAudio': 'vectors: calls: audio with a transcript',
  'HermesClient.sendTyping': 'vectors: calls: typing',
  'HermesClient.acknowledge': 'vectors: calls: ack',
  'HermesClient.ping': 'send: ping sends the time of the clock',
  'HermesClient.answerPrompt': 'send: answerPrompt throws without a card, and without an answer',
  'HermesClient.sendMedia': 'send: sendMedia throws for an unknown kind, an empty file and a useless chunkBytes',
  'HermesClient.sendImage': 'send: the kind of each method, and of sendMedia in lower case',
  'HermesClient.sendDocument': 'send: the kind of each method, and of sendMedia in lower case',
  'HermesClient.sendVoice': 'send: the kind of each method, and of sendMedia in lower case',

  'ClientOptions.url': WRITTEN,
  'ClientOptions.token': 'connect: the token is in hello and nowhere else',
  'ClientOptions.device': 'connect: the device of the options is what hello tells',
  'ClientOptions.user': WRITTEN,
  'ClientOptions.handlers': 'connect: callbacks may be methods of an object',
  'ClientOptions.maxBackoffMs': 'connect: back-off: exponential with full jitter, up to maxBackoffMs',
  'DeviceInfo.id': WRITTEN,
  'DeviceInfo.name': WRITTEN,
  'DeviceInfo.platform': WRITTEN,
  'DeviceInfo.appVersion': WRITTEN,

  MediaSource: 'send: a source may be base64, bytes, a part of a buffer, or a path',
  'MediaSendOptions.mime': 'send: the mime type: given, or that of the file name, or that of the path',
  'MediaSendOptions.filename': 'vectors: calls: media in one frame',
  'MediaSendOptions.caption': 'vectors: calls: media in one frame',
  'MediaSendOptions.messageId': 'send: methods with an id return it, made anew or as it was given',
  'MediaSendOptions.chunkBytes': 'send: chunkBytes: a file goes out in parts of so many bytes, 3 MiB of itself',

  'HermesClientHandlers.onState':
    'connect: a connection that breaks: reconnecting with its attempt, then connected again',
  'HermesClientHandlers.onReady': 'connect: ready: the state first, then onReady, and client.ready is true',
  'HermesClientHandlers.onMessage': 'receive: an edit goes to onMessageEdit and not to onMessage',
  'HermesClientHandlers.onMessageEdit': 'receive: an edit goes to onMessageEdit and not to onMessage',
  'HermesClientHandlers.onTyping': 'receive: onTyping and onTypingStop have no arguments',
  'HermesClientHandlers.onTypingStop': 'receive: onTyping and onTypingStop have no arguments',
  'HermesClientHandlers.onAvatar': 'vectors: events: avatar in a state of another name',
  'HermesClientHandlers.onPrompt': 'gateway: a card for a command',
  'HermesClientHandlers.onPromptDone': 'gateway: a card for a command',
  'HermesClientHandlers.onMedia': 'receive: onMedia: once, with the whole file, in whichever order its parts come',
  'HermesClientHandlers.onError': 'send: offline: no method throws, each tells onError once',

  PROTOCOL_VERSION: 'base64: the constants',
  MEDIA_CHUNK_BYTES: 'base64: the constants',
  AvatarState: TYPES,
  ConnectionState: TYPES,
  'ReadyPayload.v': 'vectors: events: ready',
  'ReadyPayload.session': 'vectors: events: ready',
  'ReadyPayload.device': 'vectors: events: ready',
  'ReadyPayload.avatar_url': 'vectors: events: ready',
  'ReadyPayload.capabilities': 'vectors: events: ready of an older gateway',
  'Capabilities.text': 'vectors: events: ready',
  'Capabilities.voice': 'vectors: events: ready',
  'Capabilities.typing': 'vectors: events: ready',
  'Capabilities.avatar_states': 'vectors: events: ready',
  'Capabilities.media_in': 'vectors: events: ready',
  'Capabilities.media_out': 'vectors: events: ready',
  'Capabilities.prompts': 'vectors: events: ready',
  'Capabilities.edit': 'vectors: events: ready',
  'Capabilities.max_media_bytes': 'receive: bounds: eight files at a time, each of max_media_bytes',
  'Capabilities.max_text_chars': 'vectors: events: ready',
  'AgentMessage.id': 'vectors: events: message',
  'AgentMessage.text': 'vectors: events: message in all scripts',
  'AgentMessage.index': 'vectors: events: message in pieces',
  'AgentMessage.total': 'vectors: events: message without chunk and final',
  'AgentMessage.final': 'vectors: events: message in pieces',
  'AgentMessage.edit': 'receive: an edit goes to onMessageEdit and not to onMessage',
  'PromptOption.id': 'vectors: events: card for a command',
  'PromptOption.label': 'vectors: events: card for a command',
  'PromptOption.style': 'vectors: events: card for a command',
  'PromptPayload.id': 'vectors: events: card with a question',
  'PromptPayload.kind': 'vectors: events: card with a question',
  'PromptPayload.text': 'vectors: events: card with a question',
  'PromptPayload.options': 'vectors: events: card without options',
  'PromptPayload.session': 'vectors: events: card with a question',
  'PromptPayload.timeout_seconds': 'vectors: events: card with a question',
  'PromptDonePayload.id': 'vectors: events: card answered',
  'PromptDonePayload.option_id': 'vectors: events: card answered',
  'PromptDonePayload.expired': 'vectors: events: card expired',
  'MediaPayload.id': 'vectors: events: file in one frame',
  'MediaPayload.kind': 'vectors: events: file of kind voice',
  'MediaPayload.mime': 'vectors: events: file in one frame',
  'MediaPayload.filename': 'vectors: events: file in one frame',
  'MediaPayload.caption': 'vectors: events: file in one frame',
  'MediaPayload.part': 'receive: onMedia: once, with the whole file, in whichever order its parts come',
  'MediaPayload.parts': 'receive: onMedia: once, with the whole file, in whichever order its parts come',
  'MediaPayload.final': 'receive: onMedia: once, with the whole file, in whichever order its parts come',
  'MediaPayload.size': 'vectors: events: file in parts',
  'MediaPayload.data': 'vectors: events: file in parts whose length is no multiple of three',
  'MediaPayload.url': 'vectors: events: file behind a link',
  'MediaPayload.reply_to': 'vectors: events: file in one frame',
  'ProtocolError.code': 'vectors: events: every other code',
  'ProtocolError.message': 'vectors: events: error',
  'ProtocolError.fatal': 'vectors: events: fatal error',
  makeId: 'base64: makeId: the time in base 36 and a random suffix, never twice',
  bytesToBase64:
    'base64: bytesToBase64 and base64ToBytes agree with Buffer for every length, also where the steps meet',
  base64ToBytes: 'base64: base64ToBytes passes over what is not base64',
  guessMime: 'base64: guessMime: by the extension',
};

/** What came after 1.0. */
const SINCE: Record<string, string> = {
  'HermesClient.events': 'events: events: from the call on, in order, until disconnect',
  'HermesClient.deliver': 'gateway: deliver: to another device, confirmed; to one that is offline, refused with its id',
  'ClientOptions.queue': 'queue: queue: held until ready, then sent in order, before what the callbacks send',
  'ClientOptions.reconnectWhenReplaced': 'connect: reconnectWhenReplaced: close 4001 is like any other',
  'ClientOptions.texts': 'connect: texts take the place of the Russian ones',
  'ClientTexts.offline': 'connect: texts take the place of the Russian ones',
  'ClientTexts.transport': 'connect: a connection that breaks: reconnecting with its attempt, then connected again',
  'ClientTexts.auth_failed':
    'connect: close 1008: the error frame, then failed, then auth_failed, and no other attempt',
  'ClientTexts.replaced': 'connect: close 4001: failed with replaced, and no other attempt',
  'ClientTexts.attempt': 'connect: texts take the place of the Russian ones',
  'MediaSendOptions.onProgress': 'send: onProgress: after each part that the gateway has read',
  'HermesClientHandlers.onMediaProgress': 'receive: onMediaProgress: after each part but the last',
  'HermesClientHandlers.onPong': 'receive: onPong: how long a ping took there and back',
  'HermesClientHandlers.onDelivered': 'receive: onDelivered: a delivery has reached its device',
  'PromptPayload.command': 'vectors: events: card for a command',
  'PromptPayload.description': 'vectors: events: card for a command',
  'ProtocolError.id': 'vectors: events: error with the id of its frame',
  'ProtocolError.retry_after_ms': 'receive: rate_limited is told with its delay',
  'MediaProgress.id': 'receive: onMediaProgress: after each part but the last',
  'MediaProgress.received': 'receive: onMediaProgress: after each part but the last',
  'MediaProgress.size': 'receive: onMediaProgress: after each part but the last',
  'PongPayload.ts': 'vectors: events: pong',
  'PongPayload.rtt_ms': 'receive: onPong: how long a ping took there and back',
  'DeliveredPayload.id': 'vectors: events: delivered',
  'DeliveredPayload.device': 'vectors: events: delivered',
  'Delivery.target': 'vectors: calls: deliver a text',
  'Delivery.text': 'vectors: calls: deliver a text',
  'Delivery.media': 'vectors: calls: deliver a file',
  'Delivery.messageId': 'send: methods with an id return it, made anew or as it was given',
  HermesEvent: TYPES,
  HermesEvents: TYPES,
};

/** All members of the API report, as `Name` or `Name.member`. HermesEvents counts as one: its type is held as a whole. */
function members(): string[] {
  const found = new Set<string>();
  let owner = '';
  for (const line of readFileSync(REPORT, 'utf8').split('\n')) {
    const [, what, name] = /^export (?:declare )?(class|interface|function|const|type) (\w+)/.exec(line) ?? [];
    const member = /^ {4}(?:get )?(\w+)[?(:]/.exec(line)?.[1];
    if (what === 'class' || what === 'interface') owner = name!;
    else if (name) found.add(name);
    else if (owner && member) found.add(owner === 'HermesEvents' ? owner : `${owner}.${member}`);
    if (line === '}') owner = '';
  }
  return [...found].sort();
}

/** All tests, as `file: title`. */
function titles(): Set<string> {
  const found = new Set([TYPES]);
  for (const name of readdirSync(import.meta.dirname).filter((name) => name.endsWith('.test.ts'))) {
    const source = readFileSync(join(import.meta.dirname, name), 'utf8');
    for (const match of source.matchAll(/^ *test\(\s*(['"`])(.*?)\1,/gm)) {
      found.add(`${name.replace('.test.ts', '')}: ${match[2]?.replace(/^\$\{format\}: /, '')}`);
    }
  }
  for (const kind of ['calls', 'events']) {
    const cases = JSON.parse(readFileSync(join(import.meta.dirname, '..', '..', 'vectors', `${kind}.json`), 'utf8'));
    for (const { name } of cases) found.add(`vectors: ${kind}: ${name}`);
  }
  return found;
}

test('every member has a test, and every line here a member', () => {
  assert.deepEqual(Object.keys({ ...REFERENCE, ...SINCE }).sort(), members());
});

test('every test that is named here exists', () => {
  const known = titles();
  const named = [...Object.values(REFERENCE), ...Object.values(SINCE)];
  assert.deepEqual(
    named.filter((title) => !known.has(title)),
    [],
  );
});
