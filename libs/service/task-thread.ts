/**
 * Runs pure work in worker threads, so that it does not block the event loop. Tasks and results are
 * copied between the threads (structured clone), so they should be small, or bytes that are
 * transferred.
 */

import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { setTimeout as delay, setImmediate } from "node:timers/promises";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { largeThreadsMax, smallTaskBytesMax, tardiness } from "./bounds.ts";
import { systemClock } from "./clock.ts";

/** A message to another thread. The memory in `transfer` is moved, not copied. */
export interface Sent<Value> {
  value: Value;
  transfer?: ArrayBuffer[];
}

interface Waiting<Task, Result> extends PromiseWithResolvers<Result> {
  make(): Sent<Task>;
  timeoutMs: number;
  isSmall: boolean;
}

interface Answer<Result> {
  result?: Result;
  error?: string;
  /** CPU time of the thread since its start. */
  cpuMs: number;
}

/** The tasks of one key. */
interface Line<Task, Result> {
  waiting: Set<Waiting<Task, Result>>;
  running: number;
  /**
   * The CPU time that the key has used, in ms. A new key starts at the value of the key that was
   * served last.
   */
  takenMs: number;
}

/**
 * A task exceeded its limit of CPU time; or, where `isBusy`, the machine gave it too little of
 * that.
 */
export class TaskTimeout extends Error {
  readonly isBusy: boolean;

  constructor(limitMs: number, isBusy: boolean) {
    super(isBusy ? "the machine is too busy for the task" : `the task took more than ${limitMs} ms of CPU time`);
    this.isBusy = isBusy;
  }
}

export interface TaskOptions {
  /** Keys share the threads' time. */
  key: string;
  /** The size of what the task works on. */
  bytes: number;
  /** Cancels a task that has not started. */
  signal?: AbortSignal;
  /** CPU time, in place of the threads' own limit. */
  timeoutMs?: number;
}

/**
 * A few threads, each of which runs one task at a time; the first one runs small tasks only, so
 * that large ones of however many keys do not keep them waiting. Keys share the CPU time of the
 * threads equally: of the keys with the fewest running tasks, the one with the least used time is
 * next. A task that uses more CPU time than its limit ends its thread. The next task starts a new
 * one.
 */
export class TaskThreads<Task, Result> {
  readonly #timeoutMs: number;
  readonly #threads: readonly { thread: Thread<Task, Result>; isForSmall: boolean }[];
  #lines = new Map<string, Line<Task, Result>>();
  /** The time used by the key that was served last, before its last task. */
  #servedMs = 0;
  #busy = new Set<Thread<Task, Result>>();
  #isClosed = false;

  /**
   * `module` must call `serveTasks`. `timeoutMs`: CPU time of a task. `largeThreads`: those for
   * tasks of any size.
   */
  constructor(
    module: URL,
    timeoutMs: number,
    largeThreads = Math.min(largeThreadsMax, Math.max(1, availableParallelism() - 1)),
  ) {
    this.#timeoutMs = timeoutMs;
    this.#threads = Array.from({ length: 1 + largeThreads }, (_, index) => ({
      thread: new Thread(module),
      isForSmall: index === 0,
    }));
  }

  /**
   * Calls `make` just before the task runs. Rejects with the work's error, with an error when the
   * thread ends, with TaskTimeout, or with the reason of the aborted signal.
   */
  run(make: () => Sent<Task>, { key, bytes, signal, timeoutMs = this.#timeoutMs }: TaskOptions): Promise<Result> {
    if (this.#isClosed) return Promise.reject(new Error("the thread has ended"));
    if (signal?.aborted) return Promise.reject(signal.reason);
    const line = this.#lineOf(key);
    const isSmall = bytes <= smallTaskBytesMax;
    const waiting = { make, timeoutMs, isSmall, ...Promise.withResolvers<Result>() };
    const leave = () => {
      line.waiting.delete(waiting);
      waiting.reject(signal?.reason);
    };
    line.waiting.add(waiting);
    signal?.addEventListener("abort", leave);
    this.#wake();
    return waiting.promise.finally(() => signal?.removeEventListener("abort", leave));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { waiting } of this.#lines.values())
      for (const { reject } of waiting) reject(new Error("the thread has ended"));
    this.#lines.clear();
    await Promise.all(this.#threads.map(({ thread }) => thread.close()));
  }

  #lineOf(key: string): Line<Task, Result> {
    const present = this.#lines.get(key);
    if (present !== undefined) {
      if (present.waiting.size + present.running === 0) present.takenMs = Math.max(present.takenMs, this.#servedMs);
      return present;
    }
    const line = { waiting: new Set<Waiting<Task, Result>>(), running: 0, takenMs: this.#servedMs };
    this.#lines.set(key, line);
    return line;
  }

  /** Gives each free thread work that it may do. */
  #wake(): void {
    for (const { thread, isForSmall } of this.#threads)
      if (!this.#busy.has(thread) && this.#next(isForSmall) !== undefined) void this.#work(thread, isForSmall);
  }

  /**
   * Runs waiting tasks one by one. Each gets its own turn of the event loop, because copying a
   * large task takes time.
   */
  async #work(thread: Thread<Task, Result>, isForSmall: boolean): Promise<void> {
    this.#busy.add(thread);
    for (;;) {
      await setImmediate();
      const next = this.#next(isForSmall);
      if (next === undefined) break;
      const { line, task } = next;
      line.waiting.delete(task);
      line.running++;
      this.#servedMs = line.takenMs;
      const before = thread.cpuMs;
      try {
        task.resolve(await thread.run(task.make(), task.timeoutMs));
      } catch (error) {
        task.reject(error);
      }
      line.running--;
      line.takenMs += Math.max(0, thread.cpuMs - before);
    }
    this.#busy.delete(thread);
    if (this.#busy.size > 0) return;
    this.#lines.clear();
    this.#servedMs = 0;
  }

  /**
   * Forgets a key without tasks once it has no more used time than the key that was served last.
   */
  #next(isForSmall: boolean): { line: Line<Task, Result>; task: Waiting<Task, Result> } | undefined {
    let next: { line: Line<Task, Result>; task: Waiting<Task, Result> } | undefined;
    for (const [key, line] of this.#lines) {
      const task = firstOf(line.waiting, isForSmall);
      if (task !== undefined) {
        if (next === undefined || isBefore(line, next.line)) next = { line, task };
      } else if (line.waiting.size + line.running === 0 && line.takenMs <= this.#servedMs) this.#lines.delete(key);
    }
    return next;
  }
}

type Share = Pick<Line<unknown, unknown>, "running" | "takenMs">;

const isBefore = (one: Share, other: Share): boolean =>
  one.running < other.running || (one.running === other.running && one.takenMs < other.takenMs);

function firstOf<Task, Result>(
  waiting: ReadonlySet<Waiting<Task, Result>>,
  isForSmall: boolean,
): Waiting<Task, Result> | undefined {
  for (const task of waiting) if (task.isSmall || !isForSmall) return task;
  return undefined;
}

/** One thread, which starts with its first task. */
class Thread<Task, Result> {
  readonly #module: URL;
  #worker: Worker | undefined;
  /** CPU time that it and its predecessors have used, up to their last answers. */
  #cpuMs = 0;
  /** That of the worker alone. */
  #workerMs = 0;
  /** Called at the end of the running task. */
  #answered: ((answer: Answer<Result>) => void) | undefined;
  #ended: ((cause: Error) => void) | undefined;

  constructor(module: URL) {
    this.#module = module;
  }

  get cpuMs(): number {
    return this.#cpuMs;
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  run({ value, transfer = [] }: Sent<Task>, limitMs: number): Promise<Result> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    return new Promise<Result>((settle, fail) => {
      let timeout: TaskTimeout | undefined;
      const leaving = new AbortController();
      const over = () => {
        leaving.abort();
        this.#answered = undefined;
        this.#ended = undefined;
      };
      const answered = ({ result, error, cpuMs }: Answer<Result>) => {
        over();
        this.#used(cpuMs);
        if (error === undefined) settle(result as Result);
        else fail(new Error(error));
      };
      const ended = (cause: Error) => {
        over();
        fail(timeout ?? cause);
      };
      this.#answered = answered;
      this.#ended = ended;
      worker.postMessage(value, transfer);
      void this.#watch(worker, limitMs, leaving.signal).then((late) => {
        // If this process was blocked, the answer may have arrived meanwhile.
        if (late === undefined || leaving.signal.aborted) return;
        timeout = late;
        this.#used(this.#workerMs + limitMs);
        void worker.terminate();
      });
    });
  }

  #used(workerMs: number): void {
    this.#cpuMs += workerMs - this.#workerMs;
    this.#workerMs = workerMs;
  }

  /** Resolves when the running task has exceeded its limit, or is over. */
  async #watch(worker: Worker, limitMs: number, signal: AbortSignal): Promise<TaskTimeout | undefined> {
    const before = this.#workerMs;
    const until = systemClock.now() + tardiness * limitMs;
    let usedMs = 0;
    while (!signal.aborted) {
      // It cannot use more CPU time than passes.
      await delay(Math.max(1, limitMs - usedMs), undefined, { signal, ref: false }).catch(() => undefined);
      await setImmediate();
      if (signal.aborted) return undefined;
      usedMs = msOf(await worker.cpuUsage().catch(() => ({ user: 0, system: 0 }))) - before;
      if (usedMs >= limitMs) return new TaskTimeout(limitMs, false);
      if (systemClock.now() > until) return new TaskTimeout(limitMs, true);
    }
    return undefined;
  }

  #start(): Worker {
    const worker = new Worker(this.#module);
    let cause = new Error("the thread has ended");
    this.#workerMs = 0;
    worker.on("message", (answer: Answer<Result>) => this.#answered?.(answer));
    worker.on("error", (error: Error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.#worker = undefined;
      this.#ended?.(cause);
    });
    return worker;
  }
}

const msOf = ({ user, system }: { user: number; system: number }): number => (user + system) / 1_000;

/** Runs in the thread and does the work of every task. Buffers of a task arrive as Uint8Array. */
export function serveTasks<Task, Result>(work: (task: Task) => Promise<Sent<Result>>): void {
  assert(!isMainThread && parentPort !== null);
  const port = parentPort;
  const cpuMs = () => msOf(process.threadCpuUsage());
  port.on("message", async (task: Task) => {
    try {
      const { value, transfer } = await work(task);
      port.postMessage({ result: value, cpuMs: cpuMs() }, transfer);
    } catch (error) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      port.postMessage({ error: text, cpuMs: cpuMs() });
    }
  });
}

/** A copy of bytes that can be moved to another thread. */
export const copyOf = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(bytes);

/**
 * Bytes in a buffer of their own, which can be moved to another thread; a copy where they share it.
 */
export const movable = (bytes: Buffer): Uint8Array<ArrayBuffer> =>
  bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength
    ? (bytes as Uint8Array<ArrayBuffer>)
    : copyOf(bytes);

/**
 * The Buffer for bytes of a task or a result, because structured clone turns a Buffer into a
 * Uint8Array.
 */
export const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
