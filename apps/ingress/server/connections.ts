/** The open TCP connections of the callers' server, and graceful shutdown for them. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { connectionCheckMs, connectionSilentMs } from "../common/bounds.ts";

interface Connection {
  socket: Socket;
  since: number;
}

export class Connections {
  readonly #server: Server;
  readonly #clock: Clock;
  readonly #open = new LiveMap<number, Connection>();
  #number = 0;

  constructor(server: Server, clock: Clock) {
    this.#server = server;
    this.#clock = clock;
    server.on("connection", (socket: Socket) => {
      const number = ++this.#number;
      this.#open.set(number, { socket, since: clock.now() });
      socket.once("close", () => this.#open.delete(number));
    });
  }

  /**
   * Stops accepting connections and closes each as soon as it is idle. Settles when the last is
   * closed, or after `timeoutMs`. Clients open some connections in advance, which Node counts as
   * busy: a connection that has sent nothing for a second is closed, too.
   */
  drain(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const closing = setInterval(() => this.#closeIdle(), connectionCheckMs);
      const settle = () => {
        clearInterval(closing);
        clearTimeout(timeout);
        resolve();
      };
      const timeout = setTimeout(settle, timeoutMs);
      this.#server.close(settle);
    });
  }

  #closeIdle(): void {
    this.#server.closeIdleConnections();
    const now = this.#clock.now();
    for (const { socket, since } of this.#open.values())
      if (socket.bytesRead === 0 && now - since > connectionSilentMs) socket.destroy();
  }
}
