import type { TestContext } from 'node:test';
import { type ClientOptions, HermesClient } from 'hermes-mobile-client';
import { TOKEN } from './gateway.ts';
import { Recorder } from './recorder.ts';

let devices = 0;

/** A client for a real gateway, which disconnects when the test ends, and what it tells. */
export function realClient(
  t: TestContext,
  options: Partial<ClientOptions> & { url: string },
  Client: typeof HermesClient = HermesClient,
): { client: HermesClient; told: Recorder } {
  const told = new Recorder();
  const id = `tel-${++devices}`;
  const client = new Client({
    token: TOKEN,
    device: { id, name: 'Телефон', platform: 'test', appVersion: '1.0.0' },
    handlers: told.handlers,
    maxBackoffMs: 50,
    ...options,
  });
  t.after(() => client.disconnect());
  return { client, told };
}
