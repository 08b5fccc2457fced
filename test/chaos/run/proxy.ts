/**
 * A TCP proxy that breaks on demand: for the connections of chosen client processes it holds bytes
 * back, in one direction or in both, delays them, or resets the connections. What is held back is
 * delivered when the fault is over, as TCP does after a partition.
 */
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from "node:net";

export type Direction = "to server" | "to client";

export interface NetworkFault {
  /** The client process that it applies to; undefined for all. */
  pid?: number;
  directions: readonly Direction[];
  /** Infinity holds bytes back until the fault is over. */
  delayMs: number;
}

export interface FaultProxy extends AsyncDisposable {
  readonly port: number;
  /** Applies a fault to present and new connections; the result ends it. */
  break(fault: NetworkFault): () => void;
  /** Resets the connections of a process, or all. */
  reset(pid?: number): void;
  /** Sends new connections to another server. */
  leadTo(target: NetConnectOpts): void;
}

/** A direction reads no further while it holds as many bytes. */
const heldBytesMax = 1 << 20;

interface Connection {
  near: Socket;
  far: Socket;
  directions: Record<Direction, OneDirection>;
}

export async function openProxy(target: NetConnectOpts): Promise<FaultProxy> {
  const connections = new Set<Connection>();
  const faults = new Set<NetworkFault>();
  let current = target;
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ ...current, allowHalfOpen: true, noDelay: true } as NetConnectOpts);
    const delayOf = (direction: Direction) => () => {
      let delayMs = 0;
      for (const fault of faults)
        if (fault.directions.includes(direction) && isOf(near, fault.pid)) delayMs = Math.max(delayMs, fault.delayMs);
      return delayMs;
    };
    const connection: Connection = {
      near,
      far,
      directions: {
        "to server": new OneDirection(near, far, delayOf("to server")),
        "to client": new OneDirection(far, near, delayOf("to client")),
      },
    };
    connections.add(connection);
    near.on("close", () => connections.delete(connection));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const applyFaults = () => {
    for (const { directions } of connections) for (const one of Object.values(directions)) one.deliver();
  };
  return {
    port: (server.address() as AddressInfo).port,
    break(fault) {
      faults.add(fault);
      return () => {
        faults.delete(fault);
        applyFaults();
      };
    },
    reset(pid) {
      for (const { near, far } of connections)
        if (isOf(near, pid)) {
          reset(near);
          reset(far);
        }
    },
    leadTo(next) {
      current = next;
    },
    async [Symbol.asyncDispose]() {
      for (const { near, far } of connections) {
        near.destroy();
        far.destroy();
      }
      if (!server.listening) return;
      server.close();
      await once(server, "close");
    },
  };
}

/** Sockets of the file system know no reset. */
function reset(socket: Socket): void {
  if (socket.remotePort === undefined) socket.destroy();
  else socket.resetAndDestroy();
}

/**
 * One direction of a connection: what arrives leaves in the same order, each part after the delay
 * in force.
 */
class OneDirection {
  readonly #held: { at: number; send(to: Socket): void; bytes: number }[] = [];
  #heldBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  private readonly from: Socket;
  private readonly to: Socket;
  private readonly delayMs: () => number;

  constructor(from: Socket, to: Socket, delayMs: () => number) {
    this.from = from;
    this.to = to;
    this.delayMs = delayMs;
    from.on("data", (data: Buffer) => this.#hold((socket) => socket.write(data), data.length));
    from.on("end", () => this.#hold((socket) => socket.end(), 0));
    from.on("error", () => {});
    from.on("close", (hadError) => this.#hold((socket) => (hadError ? reset(socket) : socket.end()), 0));
    to.on("drain", () => this.#readOn());
  }

  #hold(send: (to: Socket) => void, bytes: number): void {
    this.#held.push({ at: performance.now(), send, bytes });
    this.#heldBytes += bytes;
    this.deliver();
    if (this.#heldBytes > heldBytesMax || this.to.writableNeedDrain) this.from.pause();
  }

  /** Sends on what is due. */
  deliver(): void {
    clearTimeout(this.#timer);
    const delayMs = this.delayMs();
    const now = performance.now();
    for (let first = this.#held[0]; first !== undefined; first = this.#held[0]) {
      const leftMs = first.at + delayMs - now;
      if (leftMs > 0) {
        if (leftMs !== Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.deliver(), Math.ceil(leftMs));
        break;
      }
      this.#held.shift();
      this.#heldBytes -= first.bytes;
      if (!this.to.destroyed) first.send(this.to);
    }
    this.#readOn();
  }

  #readOn(): void {
    if (this.#heldBytes <= heldBytesMax && !this.to.writableNeedDrain && this.from.isPaused()) this.from.resume();
  }
}

/** Which connections belong to which process, as far as it was asked. */
const owned = new WeakMap<Socket, Map<number, boolean>>();

/** Whether the process has the other end of a loopback connection; without a process, always. */
function isOf(socket: Socket, pid: number | undefined): boolean {
  if (pid === undefined) return true;
  const streams = owned.get(socket) ?? new Map<number, boolean>();
  owned.set(socket, streams);
  let isOwn = streams.get(pid);
  if (isOwn === undefined) {
    isOwn = socket.remotePort !== undefined && ownsPort(pid, socket.remotePort);
    streams.set(pid, isOwn);
  }
  return isOwn;
}

function ownsPort(pid: number, port: number): boolean {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const line = readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .find((one) => one.split(/\s+/)[2]?.endsWith(`:${hex}`));
  const inode = line?.split(/\s+/)[10];
  return inode !== undefined && socketsOf(pid).includes(`socket:[${inode}]`);
}

function socketsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((file) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${file}`);
      } catch {
        return "";
      }
    });
  } catch {
    return [];
  }
}
