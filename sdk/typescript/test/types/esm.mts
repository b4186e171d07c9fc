// The public types as an application meets them, with the strictest settings and without the types of browsers or Node.
import {
  type AgentMessage,
  type AvatarState,
  type base64ToBytes,
  type bytesToBase64,
  type Capabilities,
  type ClientOptions,
  type ClientTexts,
  type ConnectionState,
  type DeliveredPayload,
  type Delivery,
  type DeviceInfo,
  type guessMime,
  HermesClient,
  type HermesClientHandlers,
  type HermesEvent,
  type HermesEvents,
  MEDIA_CHUNK_BYTES,
  type MediaPayload,
  type MediaProgress,
  type MediaSendOptions,
  type MediaSource,
  type makeId,
  type PongPayload,
  type PROTOCOL_VERSION,
  type PromptDonePayload,
  type PromptOption,
  type PromptPayload,
  type ProtocolError,
  type ReadyPayload,
} from 'hermes-mobile-client';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** Compiles only when both are the same type. */
function same<A, B>(..._: Same<A, B> extends true ? [] : [never]): void {}

same<AvatarState, 'idle' | 'thinking' | 'speaking'>();
same<ConnectionState, 'idle' | 'connecting' | 'connected' | 'reconnecting' | 'failed'>();
same<MediaSource, string | Uint8Array | { path: string }>();
same<DeviceInfo, { id: string; name: string; platform: string; appVersion: string }>();
same<PromptOption, { id: string; label: string; style?: string }>();
same<PromptDonePayload, { id: string; option_id?: string; expired?: boolean }>();
same<AgentMessage, { id: string; text: string; index: number; total: number; final: boolean; edit?: boolean }>();
same<ReadyPayload['device'], { id: string; name: string }>();
same<ReadyPayload['capabilities'], Capabilities>();
same<Capabilities['avatar_states'], AvatarState[] | undefined>();
same<MediaPayload['data'], string | undefined>();
same<PromptPayload['options'], PromptOption[]>();
same<ProtocolError['fatal'], boolean>();

same<typeof PROTOCOL_VERSION, 1>();
const chunk: number = MEDIA_CHUNK_BYTES;
same<typeof makeId, () => string>();
same<typeof bytesToBase64, (bytes: Uint8Array) => string>();
same<typeof base64ToBytes, (input: string) => Uint8Array>();
same<typeof guessMime, (filename: string) => string>();

same<HermesClient['ready'], boolean>();
same<HermesClient['connect'], () => void>();
same<HermesClient['disconnect'], () => void>();
same<HermesClient['setHandlers'], (handlers: HermesClientHandlers) => void>();
same<HermesClient['sendText'], (text: string, messageId?: string) => string>();
same<
  HermesClient['sendAudio'],
  (base64: string, format: 'wav' | 'ogg', transcript?: string, messageId?: string) => string
>();
same<HermesClient['sendTyping'], () => void>();
same<HermesClient['acknowledge'], (messageId: string) => void>();
same<HermesClient['ping'], () => void>();
same<HermesClient['answerPrompt'], (promptId: string, optionId?: string, text?: string) => void>();
same<HermesClient['sendMedia'], (kind: string, source: MediaSource, options?: MediaSendOptions) => string>();
same<HermesClient['sendImage'], (source: MediaSource, options?: MediaSendOptions) => string>();
same<HermesClient['sendDocument'], (source: MediaSource, options?: MediaSendOptions) => string>();
same<HermesClient['sendVoice'], (source: MediaSource, options?: MediaSendOptions) => string>();
same<HermesClient['deliver'], (delivery: Delivery) => string>();
same<HermesClient['events'], () => AsyncIterableIterator<HermesEvent>>();

same<HermesClientHandlers['onState'], ((state: ConnectionState, detail?: string) => void) | undefined>();
same<HermesClientHandlers['onTyping'], (() => void) | undefined>();
// Every event has a callback that takes its data.
type Callback<T extends keyof HermesEvents> = NonNullable<HermesClientHandlers[`on${Capitalize<T>}`]>;
type Told = Exclude<keyof HermesEvents, 'state' | 'typing' | 'typingStop'>;
same<{ [T in Told]: Parameters<Callback<T>>[0] }, Pick<HermesEvents, Told>>();
same<keyof HermesClientHandlers, `on${Capitalize<keyof HermesEvents>}`>();

const device: DeviceInfo = { id: 'a', name: 'b', platform: 'web', appVersion: '1' };
const least: ClientOptions = { url: 'wss://host/ws', token: 't', device };
const texts: Partial<ClientTexts> = { offline: '' };
const all: Required<ClientOptions> = {
  ...least,
  user: { id: 'u', name: 'n' },
  handlers: {},
  maxBackoffMs: 1,
  queue: true,
  reconnectWhenReplaced: true,
  texts,
};
// @ts-expect-error: the socket belongs to the platform, and so does its time-out
new HermesClient({ ...all, openTimeout: 5 });
// @ts-expect-error: without a token
new HermesClient({ url: '', device });

const client = new HermesClient(all);
// @ts-expect-error: only wav and ogg
client.sendAudio('', 'mp3');
// @ts-expect-error: a number is no source
client.sendMedia('image', chunk);
// @ts-expect-error: read only
client.ready = true;

export async function read(): Promise<void> {
  for await (const event of client.events()) {
    switch (event.type) {
      case 'message':
        same<typeof event.data, AgentMessage>();
        break;
      case 'state':
        same<typeof event.data, { state: ConnectionState; detail?: string }>();
        break;
      case 'mediaProgress':
        same<typeof event.data, MediaProgress>();
        break;
      case 'pong':
        same<typeof event.data, PongPayload>();
        break;
      case 'delivered':
        same<typeof event.data, DeliveredPayload>();
        break;
      case 'typing':
        same<typeof event.data, undefined>();
        break;
    }
  }
}
