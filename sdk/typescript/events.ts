import type { HermesEvent } from './protocol.js';

/** What may wait for a slow reader: so many events, and characters of the files in them. */
const MAX_EVENTS = 4096;
const MAX_FILE_CHARS = 64 * 1024 * 1024;

/** The events of a client for one reader, who takes them at leisure. */
export class EventReader implements AsyncIterableIterator<HermesEvent> {
  private readonly events: HermesEvent[] = [];
  private chars = 0;
  private ended = false;
  private error: Error | undefined;
  private wake: (() => void)[] = [];

  constructor(private readonly leave: () => void) {}

  push(event: HermesEvent): void {
    this.events.push(event);
    this.chars += weight(event);
    if (this.events.length > MAX_EVENTS || this.chars > MAX_FILE_CHARS) {
      this.events.length = 0;
      this.error = new Error('the reader of the events is too slow');
      this.end();
    }
    this.wakeAll();
  }

  /** Nothing more will come. */
  end(): void {
    this.ended = true;
    this.leave();
    this.wakeAll();
  }

  async next(): Promise<IteratorResult<HermesEvent, undefined>> {
    for (;;) {
      const value = this.events.shift();
      if (value) {
        this.chars -= weight(value);
        return { value, done: false };
      }
      const error = this.error;
      this.error = undefined;
      if (error) throw error;
      if (this.ended) return { value: undefined, done: true };
      await new Promise<void>((resolve) => this.wake.push(resolve));
    }
  }

  async return(): Promise<IteratorResult<HermesEvent, undefined>> {
    this.events.length = 0;
    this.end();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private wakeAll(): void {
    for (const resolve of this.wake.splice(0)) resolve();
  }
}

function weight(event: HermesEvent): number {
  return (event.type === 'media' && event.data.data?.length) || 0;
}
