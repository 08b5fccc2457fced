/**
 * Runs pure work in a worker thread, so that it does not block the event loop. Tasks and results are copied between the threads (structured clone), so
 * they should be small, or bytes that are transferred.
 */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

/** A message to another thread. The memory in `transfer` is moved, not copied. */
export interface Sent<Value> {
  value: Value;
  transfer?: ArrayBuffer[];
}

interface Waiting<Task, Result> extends PromiseWithResolvers<Result> {
  make(): Sent<Task>;
  timeoutMs: number;
}

interface Answer<Result> {
  result?: Result;
  error?: string;
}

/** The tasks of one key. */
interface Line<Task, Result> {
  waiting: Set<Waiting<Task, Result>>;
  /** The thread time that the key has used, in ms. A new key starts at the value of the key that was served last. */
  takenMs: number;
}

/** A task exceeded its time limit. */
export class TaskTimeout extends Error {}

export interface TaskOptions {
  /** Keys share the thread's time. */
  key: string;
  /** Cancels a task that has not started. */
  signal?: AbortSignal;
  /** In place of the thread's own limit. */
  timeoutMs?: number;
}

/**
 * One thread that runs one task at a time. Keys share its time equally: the key with the least used time is next, and the tasks of one key run in order. A task that
 * takes longer than its limit ends the thread. The next task starts a new one.
 */
export class TaskThread<Task, Result> {
  readonly #module: URL;
  readonly #timeoutMs: number;
  #worker: Worker | undefined;
  #lines = new Map<string, Line<Task, Result>>();
  /** The time used by the key that was served last, before its last task. */
  #servedMs = 0;
  #isBusy = false;
  #isClosed = false;
  /** Called at the end of the running task. */
  #answered: ((answer: Answer<Result>) => void) | undefined;
  #ended: ((cause: Error) => void) | undefined;

  /** `module` must call `serveTasks`. */
  constructor(module: URL, timeoutMs: number) {
    this.#module = module;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Calls `make` just before the task runs. Rejects with the work's error, with an error when the thread ends, with TaskTimeout, or with the reason of the aborted signal.
   */
  run(make: () => Sent<Task>, { key, signal, timeoutMs = this.#timeoutMs }: TaskOptions): Promise<Result> {
    if (this.#isClosed) return Promise.reject(new Error("the thread has ended"));
    if (signal?.aborted) return Promise.reject(signal.reason);
    const line = this.#lineOf(key);
    const waiting = { make, timeoutMs, ...Promise.withResolvers<Result>() };
    const leave = () => {
      line.waiting.delete(waiting);
      waiting.reject(signal?.reason);
    };
    line.waiting.add(waiting);
    signal?.addEventListener("abort", leave);
    if (!this.#isBusy) void this.#work();
    return waiting.promise.finally(() => signal?.removeEventListener("abort", leave));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { waiting } of this.#lines.values())
      for (const { reject } of waiting) reject(new Error("the thread has ended"));
    this.#lines.clear();
    await this.#worker?.terminate();
  }

  #lineOf(key: string): Line<Task, Result> {
    const known = this.#lines.get(key);
    if (known !== undefined) {
      if (known.waiting.size === 0) known.takenMs = Math.max(known.takenMs, this.#servedMs);
      return known;
    }
    const line = { waiting: new Set<Waiting<Task, Result>>(), takenMs: this.#servedMs };
    this.#lines.set(key, line);
    return line;
  }

  /** Runs the waiting tasks one by one. Each gets its own turn of the event loop, because copying a large task takes time. */
  async #work(): Promise<void> {
    this.#isBusy = true;
    for (;;) {
      await setImmediate();
      const line = this.#nextLine();
      if (line === undefined) break;
      const [next] = line.waiting as Iterable<Waiting<Task, Result>> as [Waiting<Task, Result>];
      line.waiting.delete(next);
      this.#servedMs = line.takenMs;
      const startedAt = performance.now();
      try {
        next.resolve(await this.#do(next.make(), next.timeoutMs));
      } catch (error) {
        next.reject(error);
      }
      line.takenMs += performance.now() - startedAt;
    }
    this.#lines.clear();
    this.#servedMs = 0;
    this.#isBusy = false;
  }

  /** Forgets a key without tasks once it has no more used time than the key that was served last. */
  #nextLine(): Line<Task, Result> | undefined {
    let next: Line<Task, Result> | undefined;
    for (const [key, line] of this.#lines)
      if (line.waiting.size > 0) {
        if (next === undefined || line.takenMs < next.takenMs) next = line;
      } else if (line.takenMs <= this.#servedMs) this.#lines.delete(key);
    return next;
  }

  #do({ value, transfer = [] }: Sent<Task>, timeoutMs: number): Promise<Result> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    return new Promise<Result>((settle, fail) => {
      let isLate = false;
      const timer = setTimeout(async () => {
        // If this process was blocked, the answer may already have arrived.
        await setImmediate();
        isLate = this.#answered === answered;
        if (isLate) void worker.terminate();
      }, timeoutMs);
      const over = () => {
        clearTimeout(timer);
        this.#answered = undefined;
        this.#ended = undefined;
      };
      const answered = ({ result, error }: Answer<Result>) => {
        over();
        if (error === undefined) settle(result as Result);
        else fail(new Error(error));
      };
      this.#answered = answered;
      this.#ended = (cause) => {
        over();
        fail(isLate ? new TaskTimeout(`the task took longer than ${timeoutMs} ms`) : cause);
      };
      worker.postMessage(value, transfer);
    });
  }

  #start(): Worker {
    const worker = new Worker(this.#module);
    let cause = new Error("the thread has ended");
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

/** Runs in the thread and does the work of every task. Buffers of a task arrive as Uint8Array. */
export function serveTasks<Task, Result>(work: (task: Task) => Promise<Sent<Result>>): void {
  assert(!isMainThread && parentPort !== null);
  const port = parentPort;
  port.on("message", async (task: Task) => {
    try {
      const { value, transfer } = await work(task);
      port.postMessage({ result: value }, transfer);
    } catch (error) {
      port.postMessage({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  });
}

/** A copy of bytes that can be moved to another thread. */
export const copyOf = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(bytes);

/** Bytes in a buffer of their own, which can be moved to another thread; a copy where they share it. */
export const movable = (bytes: Buffer): Uint8Array<ArrayBuffer> =>
  bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength
    ? (bytes as Uint8Array<ArrayBuffer>)
    : copyOf(bytes);

/** The Buffer for bytes of a task or a result, because structured clone turns a Buffer into a Uint8Array. */
export const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
