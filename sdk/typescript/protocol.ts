// The words of the protocol as an application sees them: what it gives to the client, and what the client tells it.

/** Version of the protocol that this client speaks. */
export const PROTOCOL_VERSION = 1;

/** Raw bytes in one frame of a file that is sent; a larger file goes out in several frames. */
export const MEDIA_CHUNK_BYTES = 3 * 1024 * 1024;

export type AvatarState = 'idle' | 'thinking' | 'speaking';

/** `failed` is final: the client does not try again by itself. */
export type ConnectionState = 'idle' | 'connecting' | 'connected' | 'reconnecting' | 'failed';

/** The device as the gateway and the agent see it. */
export interface DeviceInfo {
  /** Stays the same over all runs; the address of the chat is `mobile:<id>`. */
  id: string;
  name: string;
  /** `ios`, `android`, `web` or another word. */
  platform: string;
  appVersion: string;
}

/** What the gateway can do. An older gateway leaves the optional fields out. */
export interface Capabilities {
  text: boolean;
  voice: boolean;
  typing: boolean;
  avatar_states?: AvatarState[];
  /** Kinds of files that the agent takes. */
  media_in?: string[];
  /** Kinds of files that the agent may send. */
  media_out?: string[];
  /** Kinds of cards. */
  prompts?: string[];
  /** Replies may be streamed, see `onMessageEdit`. */
  edit?: boolean;
  max_media_bytes?: number;
  max_text_chars?: number;
}

export interface ReadyPayload {
  v: number;
  /** Address of the chat, `mobile:<device id>`. */
  session: string;
  device: { id: string; name: string };
  /** Page of the avatar for a WebView; may be empty. */
  avatar_url: string;
  capabilities: Capabilities;
}

/** A piece of what the agent says. The pieces of one reply have one id, and `final` is true on the last. */
export interface AgentMessage {
  id: string;
  /** With `edit`: the whole text so far, in place of what was shown under this id. */
  text: string;
  index: number;
  total: number;
  final: boolean;
  edit?: boolean;
}

export interface PromptOption {
  id: string;
  label: string;
  /** `primary`, `danger` or nothing. */
  style?: string;
}

/** A card: a question that `answerPrompt` answers. A card still open comes again after a reconnect. */
export interface PromptPayload {
  id: string;
  /** `exec_approval`, `slash_confirm` or `clarify`. */
  kind: string;
  text: string;
  options: PromptOption[];
  session: string;
  timeout_seconds: number;
  /** `exec_approval`: exactly what will run. Show it beside the buttons. */
  command?: string;
  /** `exec_approval`: what the command does. */
  description?: string;
}

/** The card is closed. */
export interface PromptDonePayload {
  id: string;
  /** The choice that took effect, which need not be the one that was sent. */
  option_id?: string;
  expired?: boolean;
}

/** A whole file from the agent. */
export interface MediaPayload {
  id: string;
  /** `image`, `video`, `document`, `audio`, `voice` or `animation`. */
  kind: string;
  mime: string;
  /** Not to be trusted as a path. */
  filename: string;
  caption: string;
  part: number;
  parts: number;
  final: boolean;
  /** Bytes of the file. */
  size: number;
  /** Base64 of the file, unless it has a `url`. */
  data?: string;
  /** Where the application fetches the file itself. */
  url?: string;
  /** Id of the message that the file answers. */
  reply_to?: string;
}

/** How much of a file in several parts has arrived; the file itself is told by `onMedia`. */
export interface MediaProgress {
  id: string;
  received: number;
  size: number;
}

/** Answer to `ping`. */
export interface PongPayload {
  /** As it was sent. */
  ts?: unknown;
  /** Milliseconds there and back. */
  rtt_ms?: number;
}

/** A delivery was handed to its device. */
export interface DeliveredPayload {
  id: string;
  device: string;
}

export interface ProtocolError {
  /**
   * From the gateway: `bad_frame`, `auth_failed`, `forbidden`, `unsupported_frame`, `too_big`, `device_offline`,
   * `rate_limited`, `internal_error`. From the client: `offline`, `transport`, `auth_failed`, `replaced`.
   */
  code: string;
  /** For a person. */
  message: string;
  /** Trying again is pointless. */
  fatal: boolean;
  /** Id of the message or the card that it is about, where there is one. */
  id?: string;
  /** `rate_limited`: when to send again. */
  retry_after_ms?: number;
}

/** Base64, or bytes, or a file of this machine (Node only). A string is never a path. */
export type MediaSource = string | Uint8Array | { path: string };

export interface MediaSendOptions {
  /** Guessed from the extension of `filename` or of the path when it is missing. */
  mime?: string;
  filename?: string;
  /** With audio: what is said in it. */
  caption?: string;
  /** Sending again with the same id is safe: the gateway takes an id once. */
  messageId?: string;
  chunkBytes?: number;
  /** After each part that the gateway has read. */
  onProgress?: (sentBytes: number, totalBytes: number) => void;
}

/** What `deliver` brings to another device. `text` or `media` is needed. */
export interface Delivery {
  /** `mobile:<device id>` or the id; without it the gateway's home device. */
  target?: string;
  text?: string;
  /** `kind` is one that the agent may send. Without `mime` the gateway looks at the file name and the content. */
  media?: { kind: string; source: MediaSource; mime?: string; filename?: string };
  /** Sending again with the same id is safe. */
  messageId?: string;
}

/** Everything that happens, under the name of its callback: `messageEdit` is told to `onMessageEdit`. */
export interface HermesEvents {
  state: { state: ConnectionState; detail?: string };
  ready: ReadyPayload;
  message: AgentMessage;
  messageEdit: AgentMessage;
  typing: undefined;
  typingStop: undefined;
  avatar: AvatarState;
  prompt: PromptPayload;
  promptDone: PromptDonePayload;
  media: MediaPayload;
  mediaProgress: MediaProgress;
  pong: PongPayload;
  delivered: DeliveredPayload;
  error: ProtocolError;
}

/** An item of `events()`. */
export type HermesEvent = { [T in keyof HermesEvents]: { type: T; data: HermesEvents[T] } }[keyof HermesEvents];

/** Callbacks, all optional. What a callback throws is not caught by the client. */
export interface HermesClientHandlers {
  /** `detail` says which attempt a reconnect is at. */
  onState?: (state: ConnectionState, detail?: string) => void;
  onReady?: (ready: ReadyPayload) => void;
  onMessage?: (message: AgentMessage) => void;
  /** A streamed reply has grown: `text` takes the place of what was shown under this id. */
  onMessageEdit?: (message: AgentMessage) => void;
  onTyping?: () => void;
  onTypingStop?: () => void;
  onAvatar?: (state: AvatarState) => void;
  onPrompt?: (prompt: PromptPayload) => void;
  onPromptDone?: (done: PromptDonePayload) => void;
  /** Once for each file, when all parts of it are there. */
  onMedia?: (media: MediaPayload) => void;
  /** After each part of a file in several parts. */
  onMediaProgress?: (progress: MediaProgress) => void;
  onPong?: (pong: PongPayload) => void;
  onDelivered?: (delivered: DeliveredPayload) => void;
  onError?: (error: ProtocolError) => void;
}

/** What the client itself says to a person. */
export interface ClientTexts {
  offline: string;
  transport: string;
  auth_failed: string;
  replaced: string;
  /** `detail` of the state `reconnecting`. */
  attempt: (number: number) => string;
}

export interface ClientOptions {
  /** `ws://host:8787/ws` or `wss://host/ws`. The token does not belong here. */
  url: string;
  /** A secret; it is sent in the first frame and nowhere else. */
  token: string;
  device: DeviceInfo;
  user?: { id?: string; name?: string };
  handlers?: HermesClientHandlers;
  /** The longest pause between two attempts to connect; 15000. */
  maxBackoffMs?: number;
  /** Hold what is sent while there is no ready connection, and send it once there is one, instead of `offline`. */
  queue?: boolean;
  /** Connect again also when another instance with the same device id took over. The two then take turns. */
  reconnectWhenReplaced?: boolean;
  /** In place of the client's own texts. */
  texts?: Partial<ClientTexts>;
}
