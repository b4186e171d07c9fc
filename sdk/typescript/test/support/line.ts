import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy before the gateway: a line that the test can cut. */
export class Line {
  /** Bytes from the application, and to it, after which a connection carries no more; it ends with the next cut. */
  holdUp = Number.POSITIVE_INFINITY;
  holdDown = Number.POSITIVE_INFINITY;
  /** Connections made so far. */
  connections = 0;

  private readonly server: Server;
  private readonly open = new Set<Socket>();

  private constructor(port: number) {
    this.server = createServer((near) => {
      this.connections++;
      const far = connect(port, '127.0.0.1');
      for (const end of [near, far]) {
        this.open.add(end);
        end.on('error', () => {});
        end.on('close', () => {
          this.open.delete(end);
          near.destroy();
          far.destroy();
        });
      }
      this.move(near, far, 'holdUp');
      this.move(far, near, 'holdDown');
    });
  }

  static async start(port: number): Promise<Line> {
    const line = new Line(port);
    line.server.listen(0, '127.0.0.1');
    await once(line.server, 'listening');
    return line;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.server.address() as AddressInfo).port}/ws`;
  }

  /** Resets every connection. The next ones carry all again. */
  cut(): void {
    this.holdUp = this.holdDown = Number.POSITIVE_INFINITY;
    for (const end of this.open) end.resetAndDestroy();
  }

  async stop(): Promise<void> {
    this.cut();
    this.server.close();
    await once(this.server, 'close');
  }

  private move(from: Socket, to: Socket, bound: 'holdUp' | 'holdDown'): void {
    let moved = 0;
    from.on('data', (bytes) => {
      const room = this[bound] - moved;
      moved += bytes.length;
      if (to.write(bytes.subarray(0, room)) && moved < this[bound]) return;
      from.pause();
      if (moved < this[bound]) to.once('drain', () => from.resume());
    });
  }
}
