/**
 * Prepares requests and reads whole answers without blocking the event loop: small ones at once,
 * large ones and token estimates in a thread.
 */

import type { WholeAnswer } from "#dialects/codec.ts";
import type { Failure } from "#dialects/errors.ts";
import type { Data } from "#dialects/neutral/attachments.ts";
import type { PreparationTask, Prepared, ResolveAddresses } from "#operations/exchange.ts";
import { isEstimated, prepare, readWhole, type WholeTask } from "#operations/exchanges.ts";
import { bufferOf, copyOf, movable, TaskThreads, TaskTimeout } from "#service/task-thread.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { preparedAtOnceBytesMax, taskPartBytes, taskTimeoutMs } from "../bounds.ts";
import type { ThreadAnswer, ThreadTask } from "./prepare-thread.ts";

const tookTooLong: Failure = {
  code: "invalid_request",
  message: `To prepare this request for its upstream takes more than ${taskTimeoutMs / 1_000} s of CPU time. Send a smaller or a simpler one.`,
};
const tooBusy: Failure = {
  code: "overloaded",
  message: "The gateway is too busy to prepare this request; try again.",
  retryAfterSeconds: 5,
};

/** Shared by all requests of a worker. */
export class PreparationThread {
  readonly #thread = new TaskThreads<ThreadTask, ThreadAnswer>(
    new URL("./prepare-thread.ts", import.meta.url),
    taskTimeoutMs,
  );

  /**
   * `key` is the caller's key; keys share the threads' time equally. Rejects with TaskTimeout, and
   * with the signal's reason.
   */
  prepare(
    task: PreparationTask,
    data: readonly (Data | undefined)[] | undefined,
    key: string,
    signal: AbortSignal,
  ): Promise<ThreadAnswer> {
    return this.#thread.run(
      () => {
        const body = copyOf(task.body);
        return { value: { kind: "prepare", task: { ...task, body: body as Buffer }, data }, transfer: [body.buffer] };
      },
      { key, signal, bytes: task.body.length },
    );
  }

  /**
   * Reads a whole answer, whose bytes move to the thread; `key` as above. Rejects with TaskTimeout.
   */
  async read(task: WholeTask, body: Buffer, key: string): Promise<WholeAnswer> {
    const bytes = movable(body);
    const timeoutMs = taskTimeoutMs * Math.ceil(bytes.length / taskPartBytes);
    const read = await this.#thread.run(() => ({ value: { kind: "read", task, bytes }, transfer: [bytes.buffer] }), {
      key,
      timeoutMs,
      bytes: bytes.length,
    });
    if (read.kind !== "read") throw new Error(`an answer was read as ${read.kind}`);
    return read.answer.kind === "answer" ? { ...read.answer, body: bufferOf(read.answer.body) } : read.answer;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/**
 * Prepares one attempt's request for its targets. Keeps the last result for a target that gets the
 * same request.
 */
export class Preparation {
  readonly #thread: PreparationThread;
  readonly #key: string;
  #kept: { task: PreparationTask; prepared: Prepared } | undefined;

  constructor(thread: PreparationThread, key: string) {
    this.#thread = thread;
    this.#key = key;
  }

  /** Rejects with the signal's reason, and with whatever `resolve` does. */
  async prepare(task: PreparationTask, resolve: ResolveAddresses, signal: AbortSignal): Promise<Prepared> {
    const { body } = task;
    if (this.#kept !== undefined && isSame(this.#kept.task, task)) return this.#kept.prepared;
    let isResolved = false;
    const resolving: ResolveAddresses = (unresolved) => {
      isResolved = true;
      return resolve(unresolved);
    };
    const isAtOnce = body.length <= preparedAtOnceBytesMax && !isEstimated(task);
    const prepared = isAtOnce ? await prepare(task, resolving) : await this.#inThread(task, resolving, signal);
    // Fetched attachments are freed between two targets, so a request with their marks can't be
    // reused.
    this.#kept = isResolved ? undefined : { task, prepared };
    return prepared;
  }

  /** Reads a whole answer, whose bytes are not used afterwards. May reject with TaskTimeout. */
  read(task: () => WholeTask, bytes: Buffer): WholeAnswer | Promise<WholeAnswer> {
    return bytes.length <= preparedAtOnceBytesMax
      ? readWhole(task(), bytes)
      : this.#thread.read(task(), bytes, this.#key);
  }

  /** Content arrived, so another target is unlikely: frees the kept result. */
  forget(): void {
    this.#kept = undefined;
  }

  async #inThread(task: PreparationTask, resolve: ResolveAddresses, signal: AbortSignal): Promise<Prepared> {
    const withData = (data?: readonly (Data | undefined)[]) =>
      this.#thread.prepare(task, data, this.#key, signal).catch((error: unknown): ThreadAnswer => {
        if (error instanceof TaskTimeout) return { kind: "refused", failure: error.isBusy ? tooBusy : tookTooLong };
        throw error;
      });
    let answer = await withData();
    if (answer.kind === "addresses") answer = await withData(await resolve(answer.unresolved));
    if (answer.kind === "addresses" || answer.kind === "read")
      throw new Error(`a request was prepared as ${answer.kind}`);
    if (answer.kind === "refused") return answer;
    if (answer.kind === "answered") return { ...answer, body: bufferOf(answer.body) };
    const request = { ...answer.request, body: bufferOf(answer.request.body) };
    if (answer.kind !== "conversation" || answer.settings === undefined) return { ...answer, request };
    const settings = bufferOf(answer.settings);
    return {
      ...answer,
      request,
      settings,
      decoded: answer.decoded && { ...answer.decoded, body: parsedObject(settings) ?? {} },
    };
  }
}

/** Whether two tasks of one attempt, which have the same body, are the same. */
function isSame({ body: _one, ...one }: PreparationTask, { body: _other, ...other }: PreparationTask): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
