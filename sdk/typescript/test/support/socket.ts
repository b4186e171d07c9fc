import { type ClientOptions, HermesClient } from 'hermes-mobile-client';
import { Recorder } from './recorder.ts';

type Listener = ((event: never) => void) | null;

/** A WebSocket in the hands of the test. */
export class FakeSocket {
  static all: FakeSocket[] = [];

  static get last(): FakeSocket {
    return FakeSocket.all.at(-1)!;
  }

  readonly url: string;
  readyState = 0;
  sent: string[] = [];
  onopen: Listener = null;
  onmessage: Listener = null;
  onerror: Listener = null;
  onclose: Listener = null;

  constructor(url: string) {
    if (!/^wss?:/.test(url)) throw new SyntaxError('not an address');
    this.url = url;
    FakeSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = 2;
  }

  open(): void {
    this.readyState = 1;
    this.fire(this.onopen, {});
  }

  /** A string is the message itself, anything else a frame. */
  receive(...frames: unknown[]): void {
    for (const frame of frames) {
      this.fire(this.onmessage, { data: typeof frame === 'string' ? frame : JSON.stringify(frame) });
    }
  }

  fail(): void {
    this.fire(this.onerror, {});
  }

  end(code = 1006, reason = ''): void {
    this.readyState = 3;
    this.fire(this.onclose, { code, reason });
  }

  /** Takes the frames that were sent. */
  frames(): Record<string, unknown>[] {
    return this.sent.splice(0).map((text) => JSON.parse(text));
  }

  private fire(listener: Listener, event: object): void {
    (listener as ((event: object) => void) | null)?.(event);
  }
}

export const READY = {
  t: 'ready',
  v: 1,
  session: 'mobile:tel-1',
  device: { id: 'tel-1', name: 'Phone' },
  avatar_url: '',
  capabilities: { text: true, voice: true, typing: true },
};

export const DEVICE = { id: 'tel-1', name: 'Phone', platform: 'android', appVersion: '1.0.0' };

export const OFFLINE = { code: 'offline', message: 'Нет связи со шлюзом', fatal: false };

/** A client whose sockets are fake ones, and what it tells. */
export function fakeClient(options: Partial<ClientOptions> = {}): { client: HermesClient; told: Recorder } {
  Object.assign(globalThis, { WebSocket: FakeSocket });
  FakeSocket.all = [];
  const told = new Recorder();
  const client = new HermesClient({
    url: 'ws://gateway.test/ws',
    token: 'secret',
    device: DEVICE,
    handlers: told.handlers,
    ...options,
  });
  return { client, told };
}

/** The same, connected and with nothing told or sent so far. */
export function readyClient(options: Partial<ClientOptions> = {}): { client: HermesClient; told: Recorder } {
  const made = fakeClient(options);
  made.client.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(READY);
  FakeSocket.last.frames();
  made.told.take();
  return made;
}
