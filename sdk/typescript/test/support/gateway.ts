import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const BINARY = fileURLToPath(new URL('../../../../bin/mobilegate', import.meta.url));

export const TOKEN = 's3cret-t0ken-of-the-operator';

const running = new Set<Gateway>();
process.once('exit', () => {
  for (const gateway of running) gateway.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1)); // a test that ran out of time

/** A gateway with the echo agent. */
export class Gateway {
  /** Of the WebSocket entry, once it listens. */
  url = '';
  private readonly process: ChildProcess;

  private constructor(process: ChildProcess) {
    this.process = process;
    running.add(this);
    process.once('exit', () => running.delete(this));
  }

  /** Starts the gateway of this tree on a free port. */
  static start(env: Record<string, string> = {}): Promise<Gateway> {
    const { PATH = '', HOME = '' } = process.env;
    return Gateway.run(`exec '${BINARY}' serve`, {
      env: { PATH, HOME, MOBILE_PORT: '0', MOBILE_TOKEN: TOKEN, ...env },
    });
  }

  /** Runs a command that starts a gateway, and waits until it listens. */
  static async run(command: string, options: { cwd?: string; env: NodeJS.ProcessEnv }): Promise<Gateway> {
    const child = spawn('bash', ['-ec', command], { ...options, detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
    const gateway = new Gateway(child);
    let log = '';
    for await (const line of createInterface({ input: child.stderr })) {
      log += `${line}\n`;
      gateway.url = /url="?(ws:\/\/[^" ]+\/ws)\b/.exec(line)?.[1] ?? '';
      if (!gateway.url) continue;
      child.stderr.resume();
      return gateway;
    }
    throw new Error(`the gateway does not start:\n${log}`);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Ends it as an operator does. */
  async stop(): Promise<void> {
    if (!running.has(this)) return;
    const gone = once(this.process, 'exit');
    this.kill('SIGTERM');
    await gone;
  }

  /** The command and what it started are a group of processes of their own. */
  kill(signal: NodeJS.Signals): void {
    process.kill(-this.process.pid!, signal);
  }
}
