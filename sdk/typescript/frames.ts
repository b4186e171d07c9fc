// Frames of the gateway, as events. What this client does not know, and what is not what it says it is, is ignored.

import type { Capabilities, HermesEvent, MediaPayload, PromptOption } from './protocol.js';

type Frame = Record<string, unknown>;

/** Reads one frame. A file comes as its parts: the data of a `media` event is one part of it. */
export function readFrame(text: unknown): HermesEvent | undefined {
  const frame = parse(text);
  const t = frame?.t;
  if (!frame || typeof t !== 'string') return undefined;
  const name = t.toLowerCase();
  return Object.hasOwn(readers, name) ? readers[name as keyof typeof readers](frame) : undefined;
}

function parse(text: unknown): Frame | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const readers = {
  ready(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { v: 0, session: '', device: {}, avatar_url: '', capabilities: {} });
    const device = data && take(data.device, { id: '', name: '' });
    const capabilities = data && readCapabilities(data.capabilities);
    return device && capabilities && { type: 'ready', data: { ...data, device, capabilities } };
  },

  message(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { id: '', text: '', chunk: {}, final: false }, { edit: false });
    const chunk = data && take(data.chunk, { index: 0, total: 1 });
    if (!chunk) return undefined;
    const { id, text, final, edit } = data;
    const message = { id, text, ...chunk, final };
    return edit ? { type: 'messageEdit', data: { ...message, edit } } : { type: 'message', data: message };
  },

  typing(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { stop: false });
    return data && { type: data.stop ? 'typingStop' : 'typing', data: undefined };
  },

  avatar(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { state: '' });
    if (!data) return undefined;
    return { type: 'avatar', data: data.state === 'thinking' || data.state === 'speaking' ? data.state : 'idle' };
  },

  prompt(frame: Frame): HermesEvent | undefined {
    const data = take(
      frame,
      { id: '', kind: '', text: '', options: [] as unknown[], session: '', timeout_seconds: 0 },
      { command: '', description: '' },
    );
    if (!data) return undefined;
    const options: PromptOption[] = [];
    for (const item of data.options) {
      const option = isObject(item) && take(item, { id: '', label: '' }, { style: '' });
      if (!option) return undefined;
      options.push(option);
    }
    return { type: 'prompt', data: { ...data, options } };
  },

  prompt_done(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { id: '' }, { option_id: '', expired: false });
    return data && { type: 'promptDone', data };
  },

  media(frame: Frame): HermesEvent | undefined {
    const data: MediaPayload | undefined = take(
      frame,
      { id: '', kind: '', mime: '', filename: '', caption: '', part: 0, parts: 1, final: false, size: 0 },
      { url: '', reply_to: '' },
    );
    const content = frame.data ?? undefined;
    if (!data || (content !== undefined && typeof content !== 'string')) return undefined;
    if (content !== undefined) data.data = content;
    return { type: 'media', data };
  },

  pong(frame: Frame): HermesEvent {
    return { type: 'pong', data: frame.ts === undefined || frame.ts === null ? {} : { ts: frame.ts } };
  },

  delivered(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { id: '', device: '' });
    return data && { type: 'delivered', data };
  },

  error(frame: Frame): HermesEvent | undefined {
    const data = take(frame, { code: '', message: '', fatal: false }, { id: '', retry_after_ms: 0 });
    return data && { type: 'error', data };
  },
};

function readCapabilities(object: Frame): Capabilities | undefined {
  return take(
    object,
    { text: true, voice: true, typing: true },
    {
      avatar_states: [] as Capabilities['avatar_states'] & object,
      media_in: [] as string[],
      media_out: [] as string[],
      prompts: [] as string[],
      edit: false,
      max_media_bytes: 0,
      max_text_chars: 0,
    },
  );
}

/**
 * Takes the fields that are named and nothing else: those of `must` with the value there as the default, those of `may`
 * only where they are not empty. A value there also says which type the field has; null counts as absent. One field of
 * another type makes the whole frame void.
 */
function take<M extends object, O extends object = object>(
  frame: Frame,
  must: M,
  may?: O,
): (Widen<M> & Partial<Widen<O>>) | undefined {
  const out = { ...must } as Frame;
  for (const [name, sample] of Object.entries({ ...must, ...may })) {
    const value = Object.hasOwn(frame, name) ? frame[name] : undefined;
    if (value === undefined || value === null) continue;
    if (typeof value !== typeof sample || Array.isArray(value) !== Array.isArray(sample)) return undefined;
    if (value || name in must) out[name] = value;
  }
  return out as Widen<M> & Partial<Widen<O>>;
}

/** A sample stands for all values of its type, an empty object for any object. */
type Widen<T> = {
  [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends number
      ? number
      : T[K] extends boolean
        ? boolean
        : T[K] extends unknown[]
          ? T[K]
          : Frame;
};

function isObject(value: unknown): value is Frame {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
