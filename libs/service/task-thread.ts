/**
 * Pure work in a thread of its own, for what would hold up the event loop. Tasks and results are copied between the threads (structured clone), so what
 * goes each way should be bytes that are moved, or small.
 */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

/** What goes to another thread. The memory in `transfer` is moved and not copied. */
export interface Sent<Value> {
  value: Value;
  transfer?: ArrayBuffer[];
}

interface Waiting<Task, Result> {
  make(): Sent<Task>;
  settle(result: Result): void;
  fail(error: unknown): void;
}

interface Answer<Result> {
  result?: Result;
  error?: string;
}

/** The tasks of one key. */
interface Line<Task, Result> {
  waiting: Set<Waiting<Task, Result>>;
  /** The thread's time that the key has had, in ms. A key that comes later begins with what those have had that were there before. */
  takenMs: number;
}

/** A task took longer than a task may. */
export class TaskTimeout extends Error {}

/** How a task is waited for. */
export interface TaskOptions {
  /** Whose turn it takes. */
  key: string;
  /** Nobody waits for it any more. */
  signal?: AbortSignal;
}

/**
 * One thread, which does one task at a time. Keys share its time alike: the one that has had the least is next, and tasks of one key are taken in order. A task that
 * takes longer than `timeoutMs` ends with the thread. The thread starts with the first task, and again with the next one after its end.
 */
export class TaskThread<Task, Result> {
  readonly #module: URL;
  readonly #timeoutMs: number;
  #worker: Worker | undefined;
  #lines = new Map<string, Line<Task, Result>>();
  /** What the key that was served last had had before. */
  #servedMs = 0;
  #isBusy = false;
  #isClosed = false;
  /** Hears what becomes of the task that the thread has. */
  #answered: ((answer: Answer<Result>) => void) | undefined;
  #ended: ((cause: Error) => void) | undefined;

  /** `module` calls `serveTasks`. */
  constructor(module: URL, timeoutMs: number) {
    this.#module = module;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * `make` is called when the task's turn has come. Rejects when the work throws, when the thread ends before it is done, with TaskTimeout, and with the reason of
   * an aborted signal.
   */
  run(make: () => Sent<Task>, { key, signal }: TaskOptions): Promise<Result> {
    if (this.#isClosed) return Promise.reject(new Error("the thread has ended"));
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const leave = () => {
        line.waiting.delete(waiting);
        reject(signal?.reason);
      };
      const settled = () => signal?.removeEventListener("abort", leave);
      const waiting: Waiting<Task, Result> = {
        make,
        settle(result) {
          settled();
          resolve(result);
        },
        fail(error) {
          settled();
          reject(error);
        },
      };
      const line = this.#lineOf(key);
      line.waiting.add(waiting);
      signal?.addEventListener("abort", leave);
      if (!this.#isBusy) void this.#work();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { waiting } of this.#lines.values())
      for (const { fail } of waiting) fail(new Error("the thread has ended"));
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

  /** Does what waits, one after the other. To copy a large task takes a turn of the event loop of its own. */
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
        next.settle(await this.#do(next.make()));
      } catch (error) {
        next.fail(error);
      }
      line.takenMs += performance.now() - startedAt;
    }
    this.#lines.clear();
    this.#servedMs = 0;
    this.#isBusy = false;
  }

  /** Keys without tasks are remembered only for as long as they have had more than the others. */
  #nextLine(): Line<Task, Result> | undefined {
    let next: Line<Task, Result> | undefined;
    for (const [key, line] of this.#lines)
      if (line.waiting.size > 0) {
        if (next === undefined || line.takenMs < next.takenMs) next = line;
      } else if (line.takenMs <= this.#servedMs) this.#lines.delete(key);
    return next;
  }

  #do({ value, transfer = [] }: Sent<Task>): Promise<Result> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    return new Promise<Result>((settle, fail) => {
      let isLate = false;
      const timer = setTimeout(async () => {
        // The answer may be there already, where this process was held up.
        await setImmediate();
        isLate = this.#answered === answered;
        if (isLate) void worker.terminate();
      }, this.#timeoutMs);
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
        fail(isLate ? new TaskTimeout(`the task took longer than ${this.#timeoutMs} ms`) : cause);
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

/** In the thread: does the work of every task. Buffers of a task arrive as Uint8Array. */
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

/** A copy of bytes, which may be moved to another thread. */
export const copyOf = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(bytes);

/** Bytes of a task or a result, which structured clone makes plain. */
export const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
