import { base64ToBytes, bytesToBase64 } from './base64.js';
import { EventReader } from './events.js';
import { readFrame } from './frames.js';
import { Link, type Outgoing } from './link.js';
import { Downloads, readSource } from './media.js';
import { guessMime } from './mime.js';
import {
  type ClientOptions,
  type ClientTexts,
  type Delivery,
  type HermesClientHandlers,
  type HermesEvent,
  type HermesEvents,
  MEDIA_CHUNK_BYTES,
  type MediaPayload,
  type MediaSendOptions,
  type MediaSource,
  type PongPayload,
  PROTOCOL_VERSION,
  type ReadyPayload,
} from './protocol.js';

export * from './protocol.js';
export { base64ToBytes, bytesToBase64, guessMime };

const TEXTS: ClientTexts = {
  offline: 'Нет связи со шлюзом',
  transport: 'Соединение со шлюзом прервано',
  auth_failed: 'Шлюз отказал в доступе',
  replaced: 'Устройство подключилось из другого экземпляра приложения',
  attempt: (number) => `попытка ${number}`,
};

const MAX_BACKOFF_MS = 15000;

/** Kinds of files that an application may send. */
const KINDS = ['image', 'video', 'document', 'audio'];

const CALLBACKS: { [T in keyof HermesEvents]: `on${Capitalize<T>}` } = {
  state: 'onState',
  ready: 'onReady',
  message: 'onMessage',
  messageEdit: 'onMessageEdit',
  typing: 'onTyping',
  typingStop: 'onTypingStop',
  avatar: 'onAvatar',
  prompt: 'onPrompt',
  promptDone: 'onPromptDone',
  media: 'onMedia',
  mediaProgress: 'onMediaProgress',
  pong: 'onPong',
  delivered: 'onDelivered',
  error: 'onError',
};

/** Makes an id for a message: the time in base 36 and a random suffix. */
export function makeId(): string {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 12).padEnd(10, '0')}`;
}

/**
 * One device of a gateway that speaks Hermes Mobile protocol v1. It keeps the device connected from `connect` to
 * `disconnect` and tells what happens by callbacks, or by `events()`.
 *
 * No method that sends throws for want of a connection: `onError` hears `offline`, unless the option `queue` is set.
 */
export class HermesClient {
  private readonly texts: ClientTexts;
  private readonly link: Link;
  private readonly handlers: HermesClientHandlers = {};
  private readonly readers = new Set<EventReader>();
  private readonly downloads = new Downloads();
  private readonly marks = new Map<string, () => void>(); // by the ts of a ping: what its pong means
  private marked = 0;

  constructor(options: ClientOptions) {
    this.setHandlers(options.handlers ?? {});
    this.texts = { ...TEXTS, ...options.texts };
    const { url, maxBackoffMs = MAX_BACKOFF_MS, queue = false, reconnectWhenReplaced = false } = options;
    this.link = new Link(
      { url, maxBackoffMs, queue, reconnectWhenReplaced, texts: this.texts },
      {
        hello: () => hello(options),
        frame: (text) => this.frame(text),
        state: (state, detail) => this.tell({ type: 'state', data: detail ? { state, detail } : { state } }),
        error: (error) => this.tell({ type: 'error', data: error }),
        failed: (error) => this.tell({ type: 'error', data: error }, true),
        lost: () => this.lost(),
      },
    );
  }

  /** The gateway has let this device in. */
  get ready(): boolean {
    return this.link.state === 'connected';
  }

  /** Puts further callbacks in place of those of the same name. */
  setHandlers(handlers: HermesClientHandlers): void {
    for (const name of Object.values(CALLBACKS)) {
      if (name in handlers) Object.assign(this.handlers, { [name]: handlers[name]?.bind(handlers) });
    }
  }

  /**
   * Everything that happens from now on, until `disconnect` or the state `failed`. A reader that falls too far behind
   * ends with an error.
   */
  events(): AsyncIterableIterator<HermesEvent> {
    const reader = new EventReader(() => this.readers.delete(reader));
    this.readers.add(reader);
    return reader;
  }

  /** Opens the connection and keeps it, until `disconnect` or a refusal. Throws when `url` is no address. */
  connect(): void {
    this.link.open();
  }

  disconnect(): void {
    try {
      this.link.close();
    } finally {
      for (const reader of this.readers) reader.end();
    }
  }

  /** Returns the id of the message. */
  sendText(text: string, messageId: string = makeId()): string {
    this.send({ t: 'text', id: messageId, text });
    return messageId;
  }

  /** Sends a voice message; `transcript` is what is said in it. Returns the id. */
  sendAudio(base64: string, format: 'wav' | 'ogg', transcript?: string, messageId: string = makeId()): string {
    this.send({ t: 'audio', id: messageId, format, data: base64, text: transcript || undefined });
    return messageId;
  }

  /** The user is typing. */
  sendTyping(): void {
    this.send({ t: 'typing' }, false);
  }

  /** The message was shown, or played. */
  acknowledge(messageId: string): void {
    this.send({ t: 'ack', id: messageId });
  }

  /** `onPong` hears how long the way there and back took. */
  ping(): void {
    this.send({ t: 'ping', ts: Date.now() }, false);
  }

  /** Answers a card: with one of its options, with a text (`clarify`), or with both. Throws when both are missing. */
  answerPrompt(promptId: string, optionId?: string, text?: string): void {
    if (!promptId) throw new Error('the id of the card is missing');
    if (!optionId && !text) throw new Error('an option or a text is needed to answer a card');
    this.send({
      t: 'prompt',
      prompt_id: promptId,
      option_id: optionId?.toLowerCase() || undefined,
      text: text || undefined,
    });
  }

  /** Sends a file, in several frames when it is large. Returns the id. Throws when `kind` is unknown or the file empty. */
  sendMedia(kind: string, source: MediaSource, options: MediaSendOptions = {}): string {
    const { filename, caption, messageId = makeId(), chunkBytes = MEDIA_CHUNK_BYTES, onProgress } = options;
    const name = kind.toLowerCase();
    if (!KINDS.includes(name)) throw new Error(`the kind of a file is one of ${KINDS.join(', ')}`);
    if (!Number.isInteger(chunkBytes) || chunkBytes < 1) throw new Error('chunkBytes is a whole number of bytes');
    const bytes = readSource(source);
    const path = typeof source === 'object' && 'path' in source ? source.path : '';
    const head = { t: 'media', id: messageId, kind: name, mime: options.mime || guessMime(filename || path) };
    const parts = Math.ceil(bytes.length / chunkBytes);
    const frames: Outgoing[] = [];
    for (let part = 0; part < parts; part++) {
      const end = Math.min((part + 1) * chunkBytes, bytes.length);
      const data = bytesToBase64(bytes.subarray(part * chunkBytes, end));
      const tail = { filename: filename || undefined, caption: caption || undefined };
      frames.push({ text: JSON.stringify({ ...head, data, part, parts, ...tail }) });
      if (onProgress) frames.push(this.mark(() => onProgress(end, bytes.length)));
    }
    this.sendAll(frames);
    return messageId;
  }

  sendImage(source: MediaSource, options?: MediaSendOptions): string {
    return this.sendMedia('image', source, options);
  }

  sendDocument(source: MediaSource, options?: MediaSendOptions): string {
    return this.sendMedia('document', source, options);
  }

  sendVoice(source: MediaSource, options?: MediaSendOptions): string {
    return this.sendMedia('audio', source, options);
  }

  /**
   * Brings a text or a file to another device; the gateway lets tokens for deliveries do so, and programs of its own
   * host. `onDelivered` confirms it. Returns the id. Throws when there is nothing to bring.
   */
  deliver(delivery: Delivery): string {
    const { target, text, media, messageId = makeId() } = delivery;
    if (!text && !media) throw new Error('a text or a file is needed for a delivery');
    const attachment = media && {
      kind: media.kind.toLowerCase(),
      mime: media.mime || undefined,
      filename: media.filename || undefined,
      data: bytesToBase64(readSource(media.source)),
    };
    this.send({ t: 'deliver', id: messageId, target: target || undefined, text: text || undefined, media: attachment });
    return messageId;
  }

  /** With `hold` the frame may wait for a connection; what is of the moment has none. */
  private send(frame: object, hold = true): void {
    this.sendAll([{ text: JSON.stringify(frame) }], hold);
  }

  private sendAll(frames: Outgoing[], hold = true): void {
    if (this.link.send(frames, hold)) return;
    this.tell({ type: 'error', data: { code: 'offline', message: this.texts.offline, fatal: false } });
  }

  /** A ping whose pong says that the gateway has read everything before it. */
  private mark(reached: () => void): Outgoing {
    const ts = `mark-${++this.marked}`;
    return { text: JSON.stringify({ t: 'ping', ts }), sent: () => this.marks.set(ts, reached) };
  }

  private lost(): void {
    this.marks.clear();
    this.downloads.clear();
  }

  private frame(text: unknown): void {
    const event = readFrame(text);
    if (!event) return;
    if (event.type === 'error' && event.data.fatal) this.link.refused();
    if (event.type === 'ready') this.welcome(event.data);
    else if (event.type === 'media') this.part(event.data);
    else if (event.type === 'pong') this.pong(event.data);
    else this.tell(event);
  }

  private welcome(ready: ReadyPayload): void {
    this.downloads.maxBytes = ready.capabilities.max_media_bytes ?? this.downloads.maxBytes;
    this.link.ready();
    if (this.ready) this.tell({ type: 'ready', data: ready }); // the callback before may have disconnected
  }

  private part(part: MediaPayload): void {
    const result = this.downloads.add(part);
    if (!result) return;
    if ('file' in result) this.tell({ type: 'media', data: result.file });
    else this.tell({ type: 'mediaProgress', data: result.progress });
  }

  private pong(pong: PongPayload): void {
    const { ts } = pong;
    const reached = typeof ts === 'string' && this.marks.get(ts);
    if (reached) {
      this.marks.delete(ts);
      reached();
      return;
    }
    this.tell({ type: 'pong', data: typeof ts === 'number' ? { ts, rtt_ms: Math.max(0, Date.now() - ts) } : pong });
  }

  private tell(event: HermesEvent, last = false): void {
    for (const reader of this.readers) {
      reader.push(event);
      if (last) reader.end();
    }
    const { handlers } = this;
    if (event.type === 'state') handlers.onState?.(event.data.state, event.data.detail);
    else if (event.type === 'typing' || event.type === 'typingStop') handlers[CALLBACKS[event.type]]?.();
    else (handlers[CALLBACKS[event.type]] as ((data: typeof event.data) => void) | undefined)?.(event.data);
  }
}

/** The options stay out of the client's fields: whoever prints a client must not print the token. */
function hello({ token, device, user = {} }: ClientOptions): string {
  const { id, name, platform, appVersion } = device;
  return JSON.stringify({
    t: 'hello',
    v: PROTOCOL_VERSION,
    token,
    device: { id, name, platform, app_version: appVersion },
    user: { id: user.id, name: user.name },
  });
}
