/**
 * Pure work in a thread of its own, for what would hold up the event loop. Tasks and results are copied between the threads (structured clone), so what
 * goes each way should be bytes, or small.
 */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

interface Waiting<Result> {
  settle(result: Result): void;
  fail(error: Error): void;
}

interface Answer<Result> {
  result?: Result;
  error?: string;
}

/** One thread, which takes the tasks in order. It starts with the first task, and again after a crash, which fails the tasks that were given to it. */
export class TaskThread<Task, Result> {
  readonly #module: URL;
  #worker: Worker | undefined;
  #waiting: Waiting<Result>[] = [];

  /** `module` calls `serveTasks`. */
  constructor(module: URL) {
    this.#module = module;
  }

  /** Rejects when the work throws, or when the thread ends before it is done. To copy a large task takes a turn of the event loop of its own. */
  async run(task: Task): Promise<Result> {
    await setImmediate();
    const worker = this.#worker ?? this.#start();
    return new Promise((settle, fail) => {
      this.#waiting.push({ settle, fail });
      worker.postMessage(task);
    });
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #start(): Worker {
    const worker = new Worker(this.#module);
    this.#worker = worker;
    const waiting: Waiting<Result>[] = [];
    this.#waiting = waiting;
    let cause = new Error("the thread has ended");
    worker.on("message", ({ result, error }: Answer<Result>) => {
      const first = waiting.shift();
      assert(first !== undefined);
      if (error === undefined) first.settle(result as Result);
      else first.fail(new Error(error));
    });
    worker.on("error", (error: Error) => {
      cause = error;
    });
    worker.on("exit", () => {
      if (this.#worker === worker) this.#worker = undefined;
      for (const { fail } of waiting.splice(0)) fail(cause);
    });
    return worker;
  }
}

/** In the thread: does the work of every task, in order. Buffers of a task arrive as Uint8Array. Memory in `transfer` is moved and not copied. */
export function serveTasks<Task, Result>(work: (task: Task) => Promise<{ result: Result; transfer?: ArrayBuffer[] }>): void {
  assert(!isMainThread && parentPort !== null);
  const port = parentPort;
  let before: Promise<unknown> = Promise.resolve();
  port.on("message", (task: Task) => {
    before = before.then(async () => {
      try {
        const { result, transfer = [] } = await work(task);
        port.postMessage({ result }, transfer);
      } catch (error) {
        port.postMessage({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
      }
    });
  });
}

/** Bytes to be copied to another thread: a part of a larger memory would bring all of it along. */
export const ownBytesOf = (bytes: Uint8Array): Uint8Array => (bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes));

/** Bytes of a task or a result, which structured clone makes plain. */
export const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer => Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
