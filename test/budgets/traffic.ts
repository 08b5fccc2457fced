/**
 * Counts the cost of a request to a gateway in this process: its traffic with Redis, and the timers
 * and promises that it creates. Meanwhile the gateway's periodic tasks wait, so that no other work
 * is counted. The module must be imported before the gateway starts.
 */
import { createHook } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Redis } from "ioredis";

export const measures = ["commands", "scripts", "publishes", "writes", "bytes", "jobs", "timers", "promises"] as const;
export type Measure = (typeof measures)[number];
export type Cost = Record<Measure, number>;

export interface Sample {
  cost: Cost;
  /** The commands in their order, shortened; those of a script are indented. */
  commands: string[];
}

/** Longer than any delay of the gateway before it sends what it has gathered. */
const quietMs = 120;
/** A timer of this length that is older than a sample belongs to a periodic task. */
const taskMsMin = 200;
const commandLengthMax = 110;

const newSample = (): Sample => ({
  cost: { commands: 0, scripts: 0, publishes: 0, writes: 0, bytes: 0, jobs: 0, timers: 0, promises: 0 },
  commands: [],
});

let sample = newSample();
let isSampling = false;
/** Whether this module is at work, which is not counted. */
let isOwn = false;
/** Periodic tasks that were due during a sample, each once. They run after it. */
const postponed = new Set<() => void>();

type Act = (...values: unknown[]) => void;
const { setInterval: startInterval, setTimeout: startTimeout } = globalThis;
Reflect.set(globalThis, "setInterval", (act: Act, ms?: number, ...values: unknown[]) => {
  const task = () => act(...values);
  return startInterval(() => void (isSampling ? postponed.add(task) : task()), ms);
});
const startTimer = (act: Act, ms = 0, ...values: unknown[]) => {
  const startedIn = sample;
  const task = () => act(...values);
  return startTimeout(
    () => void (isSampling && startedIn !== sample && ms >= taskMsMin ? postponed.add(task) : task()),
    ms,
  );
};
Reflect.set(globalThis, "setTimeout", Object.assign(startTimer, { [promisify.custom]: delay }));

createHook({
  init(_id, type) {
    if (isOwn) return;
    if (type === "Timeout") sample.cost.timers++;
    else if (type === "PROMISE") sample.cost.promises++;
  },
}).enable();

function countWrite(socket: Socket, chunks: readonly { chunk: string | Buffer; encoding: BufferEncoding }[]): void {
  // Only Redis is connected to by a Unix socket, which has no address.
  if (isOwn || socket.remoteAddress !== undefined) return;
  sample.cost.writes++;
  for (const { chunk, encoding } of chunks)
    sample.cost.bytes += typeof chunk === "string" ? Buffer.byteLength(chunk, encoding) : chunk.byteLength;
}

subscribe("net.client.socket", (message) => {
  const { socket } = message as { socket: Socket };
  const { _write: write, _writev: writev } = socket;
  socket._write = (chunk, encoding, done) => {
    countWrite(socket, [{ chunk, encoding }]);
    write.call(socket, chunk, encoding, done);
  };
  socket._writev = (chunks, done) => {
    countWrite(socket, chunks);
    writev?.call(socket, chunks, done);
  };
});

/** Does something without counting it. */
function uncounted<Result>(act: () => Result): Result {
  isOwn = true;
  try {
    return act();
  } finally {
    isOwn = false;
  }
}

export class Traffic implements Disposable {
  readonly #redis: Redis;
  readonly #monitor: Socket;
  #marks = 0;
  #lastMark = "";
  /** When the last command was seen. */
  #busyAt = 0;

  private constructor(redis: Redis, monitor: Socket) {
    this.#redis = redis;
    this.#monitor = monitor;
    // ioredis fails when a command is reported together with the reply to MONITOR.
    createInterface({ input: monitor }).on("line", (line) => {
      const at = line.indexOf('"');
      if (at < 0) return;
      const [name = "", ...values] = line
        .slice(at + 1, -1)
        .split('" "')
        .map((value) => value.replaceAll('\\"', '"'));
      this.#count(name.toLowerCase(), values, line.slice(0, at).endsWith(" lua] "));
    });
  }

  /** The traffic with a Redis that listens at a Unix socket. */
  static async open(url: string): Promise<Traffic> {
    const path = url.slice("unix://".length);
    const redis = new Redis(path);
    const monitor = connect(path);
    monitor.write("MONITOR\r\n");
    await once(monitor, "readable");
    const reply = monitor.read("+OK\r\n".length);
    if (String(reply) !== "+OK\r\n") throw new Error(`MONITOR: ${reply}`);
    return new Traffic(redis, monitor);
  }

  /** The cost of `act` with everything that follows it. */
  async of(act: () => Promise<unknown>): Promise<Sample> {
    await this.#quiet();
    sample = newSample();
    isSampling = true;
    try {
      await act();
      await this.#quiet();
      return sample;
    } finally {
      sample = newSample();
      isSampling = false;
      for (const task of [...postponed]) task();
      postponed.clear();
    }
  }

  #count(name: string, values: string[], isOfScript: boolean): void {
    if (name === "echo") {
      this.#lastMark = values[0] ?? "";
      return;
    }
    this.#busyAt = performance.now();
    const { cost, commands } = sample;
    commands.push(`${isOfScript ? "  " : ""}${[name, ...values].join(" ")}`.slice(0, commandLengthMax));
    cost[name === "spublish" ? "publishes" : "commands"]++;
    if (name === "evalsha" || name === "eval") cost.scripts++;
    if (isOfScript && name === "hset" && values[1] === "name") cost.jobs++;
  }

  /** Settles when Redis has had nothing to do for a moment. */
  async #quiet(): Promise<void> {
    this.#busyAt = performance.now();
    for (let leftMs = quietMs; leftMs > 0; leftMs = this.#busyAt + quietMs - performance.now()) {
      await uncounted(() => delay(leftMs));
      await this.#allSeen();
    }
  }

  /** Settles when the monitor has reported every command so far. */
  async #allSeen(): Promise<void> {
    const mark = String(++this.#marks);
    await uncounted(() => this.#redis.echo(mark));
    while (this.#lastMark !== mark) await uncounted(() => new Promise((resolve) => setImmediate(resolve)));
  }

  [Symbol.dispose](): void {
    this.#monitor.destroy();
    this.#redis.disconnect();
  }
}
