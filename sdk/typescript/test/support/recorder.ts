import type { HermesClientHandlers, HermesEvents } from 'hermes-mobile-client';

type Name = keyof HermesEvents;
type Handlers = Required<HermesClientHandlers>;
type Data<T extends Name> = Parameters<Handlers[`on${Capitalize<T>}`]>;
export type Happening = { [T in Name]: [T, ...Data<T>] }[Name];

const NAMES: Name[] = [
  ...(['state', 'ready', 'message', 'messageEdit', 'typing', 'typingStop', 'avatar', 'prompt'] as const),
  ...(['promptDone', 'media', 'mediaProgress', 'pong', 'delivered', 'error'] as const),
];

/** Writes down every callback, and lets a test wait for the next one of its choice. */
export class Recorder {
  readonly all: Happening[] = [];
  readonly handlers: HermesClientHandlers;
  private seen = 0;
  private wake: () => void = () => {};

  constructor() {
    const handlers: Record<string, (...args: unknown[]) => void> = {};
    for (const name of NAMES) {
      handlers[`on${name[0]?.toUpperCase()}${name.slice(1)}`] = (...args) => {
        this.all.push([name, ...args] as Happening);
        this.wake();
      };
    }
    this.handlers = handlers as HermesClientHandlers;
  }

  /** Waits for a callback of this name whose first argument fits, after the one that was waited for last. */
  async next<T extends Name>(name: T, fits: (...data: Data<T>) => unknown = () => true): Promise<Data<T>[0]> {
    for (;;) {
      for (const happening of this.all.slice(this.seen)) {
        this.seen++;
        if (happening[0] === name && fits(...(happening.slice(1) as Data<T>))) return happening[1] as Data<T>[0];
      }
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }

  /** The state that is waited for. */
  state(wanted: string): Promise<unknown> {
    return this.next('state', (state) => state === wanted);
  }

  of<T extends Name>(name: T): Data<T>[0][] {
    return this.all.filter((happening) => happening[0] === name).map((happening) => happening[1] as Data<T>[0]);
  }

  /** Takes what was written down. */
  take(): Happening[] {
    this.seen = 0;
    return this.all.splice(0);
  }
}
