// The connection: one WebSocket at a time, opened again with back-off until the gateway refuses for good.

import type { ClientTexts, ConnectionState, ProtocolError } from './protocol.js';

const OPEN = 1; // WebSocket.OPEN, which a stand-in for WebSocket may lack
const REFUSED = 1008;
const REPLACED = 4001;
const BROKEN = 1006;
const FIRST_BACKOFF_MS = 500;

/** What may wait for a connection: so many frames, and characters in them. */
const MAX_HELD = 1000;
const MAX_HELD_CHARS = 32 * 1024 * 1024;

export interface Outgoing {
  text: string;
  /** Called when the frame goes to the socket. */
  sent?: () => void;
}

export interface LinkOptions {
  url: string;
  maxBackoffMs: number;
  queue: boolean;
  reconnectWhenReplaced: boolean;
  texts: ClientTexts;
}

export interface LinkOwner {
  /** The first frame of a connection. */
  hello(): string;
  frame(text: unknown): void;
  state(state: ConnectionState, detail?: string): void;
  error(error: ProtocolError): void;
  /** The state is `failed`, and this is why. */
  failed(error: ProtocolError): void;
  /** The connection is gone, and what was on its way with it. */
  lost(): void;
}

export class Link {
  state: ConnectionState = 'idle';

  private socket: WebSocket | undefined;
  private fatal = false; // this connection has brought a fatal error
  private readySince = 0; // 0: this connection has not been ready

  private timer: ReturnType<typeof setTimeout> | undefined;
  private attempts = 0;

  private held: Outgoing[] = [];
  private heldChars = 0;

  constructor(
    private readonly options: LinkOptions,
    private readonly owner: LinkOwner,
  ) {}

  /** Does nothing when a connection is there or under way; a pause before the next attempt ends at once. */
  open(): void {
    if (this.socket) return;
    this.dial();
    clearTimeout(this.timer);
    this.attempts = 0;
    this.become('connecting');
  }

  close(): void {
    clearTimeout(this.timer);
    this.leave()?.close();
    this.release();
    this.become('idle');
  }

  /** The gateway has answered hello. */
  ready(): void {
    if (this.state === 'connected') return;
    this.readySince = Date.now();
    this.state = 'connected';
    if (this.isOpen()) this.transmit(this.release());
    this.owner.state('connected');
  }

  /** A fatal error has come: when this connection ends without a close frame, the frame was lost and the end is a refusal. */
  refused(): void {
    this.fatal = true;
  }

  /** Sends all frames or none. With `hold` they may also wait for the connection, if the application wants that. */
  send(frames: Outgoing[], hold: boolean): boolean {
    const { queue } = this.options;
    if (!this.isOpen() || (queue && this.state !== 'connected')) return queue && hold && this.hold(frames);
    this.transmit(frames);
    return true;
  }

  private isOpen(): boolean {
    return this.socket?.readyState === OPEN;
  }

  private transmit(frames: Outgoing[]): void {
    for (const frame of frames) {
      this.socket?.send(frame.text);
      frame.sent?.();
    }
  }

  private hold(frames: Outgoing[]): boolean {
    const chars = frames.reduce((sum, frame) => sum + frame.text.length, this.heldChars);
    const ended = this.state === 'idle' || this.state === 'failed';
    if (ended || this.held.length + frames.length > MAX_HELD || chars > MAX_HELD_CHARS) return false;
    this.held.push(...frames);
    this.heldChars = chars;
    return true;
  }

  private release(): Outgoing[] {
    const frames = this.held;
    this.held = [];
    this.heldChars = 0;
    return frames;
  }

  private dial(): void {
    const socket = new WebSocket(this.options.url);
    let opened = false;
    this.socket = socket;
    this.fatal = false;
    this.readySince = 0;
    socket.onopen = () => {
      opened = true;
      socket.send(this.owner.hello());
    };
    socket.onmessage = (event) => this.owner.frame(event.data);
    socket.onerror = () => {
      try {
        this.owner.error({ code: 'transport', message: this.options.texts.transport, fatal: false });
      } finally {
        // Where no connection came about, browsers tell the close as well, and Node 22 does not.
        if (!opened && this.socket === socket) this.closed(BROKEN);
      }
    };
    socket.onclose = (event) => this.closed(event.code);
  }

  /** Lets go of the socket, of which nothing is heard any more. */
  private leave(): WebSocket | undefined {
    const socket = this.socket;
    if (!socket) return undefined;
    this.socket = undefined;
    socket.onopen = socket.onmessage = socket.onerror = socket.onclose = null;
    this.owner.lost();
    return socket;
  }

  private closed(code: number): void {
    this.leave();
    if (code === REFUSED || (code === BROKEN && this.fatal)) this.fail('auth_failed');
    else if (code === REPLACED && !this.options.reconnectWhenReplaced) this.fail('replaced');
    else this.reconnect();
  }

  private fail(code: 'auth_failed' | 'replaced'): void {
    this.release();
    try {
      this.become('failed');
    } finally {
      this.owner.failed({ code, message: this.options.texts[code], fatal: true });
    }
  }

  /** Only a connection that outlived the longest pause counts as a success: a gateway may take devices and drop them. */
  private reconnect(): void {
    const { maxBackoffMs, texts } = this.options;
    if (this.readySince && Date.now() - this.readySince > maxBackoffMs) this.attempts = 0;
    const ceiling = Math.min(maxBackoffMs, FIRST_BACKOFF_MS * 2 ** this.attempts);
    this.attempts++;
    this.timer = setTimeout(() => this.dial(), Math.random() * ceiling);
    this.become('reconnecting', texts.attempt(this.attempts));
  }

  private become(state: ConnectionState, detail?: string): void {
    if (state === this.state && !detail) return;
    this.state = state;
    this.owner.state(state, detail);
  }
}
