/** Prepares requests where each does not hold up its neighbours: small ones at once, large ones and estimates in a thread. */
import { bufferOf, copyOf, TaskThread, TaskTimeout } from "#service/task-thread.ts";
import type { Failure } from "#wire/errors.ts";
import type { Data } from "#wire/sources.ts";
import { isEstimated, type PreparationTask, type Prepared, prepare, type ResolveAddresses } from "./prepare.ts";
import type { ThreadAnswer, ThreadTask } from "./prepare-thread.ts";

/** A request of so many bytes, whatever it holds, takes some 20 ms at most. */
const preparedAtOnceBytesMax = 128 * 1024;

/** Whatever a request of the largest size holds, to prepare it takes a second or two. */
const prepareTimeoutMs = 10_000;
const tookTooLong: Failure = {
  code: "invalid_request",
  message: `The gateway could not prepare this request for its upstream within ${prepareTimeoutMs / 1_000} s. Send a smaller or a simpler one.`,
};

/** Shared by all requests of a worker. */
export class PreparationThread {
  readonly #thread = new TaskThread<ThreadTask, ThreadAnswer>(new URL("./prepare-thread.ts", import.meta.url), prepareTimeoutMs);

  /** `key` is whose turn it takes. Rejects with the signal's reason. */
  async prepare(task: PreparationTask, data: readonly (Data | undefined)[] | undefined, key: string, signal: AbortSignal): Promise<ThreadAnswer> {
    try {
      return await this.#thread.run(
        () => {
          const body = copyOf(task.body);
          return { value: { ...task, body, data }, transfer: [body.buffer] };
        },
        { key, signal },
      );
    } catch (error) {
      if (error instanceof TaskTimeout) return { kind: "refused", failure: tookTooLong };
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** The preparation of one generation's request for its targets. The last one is kept for a target that is to be sent the same. */
export class Preparation {
  readonly #thread: PreparationThread;
  readonly #key: string;
  #kept: { name: string; prepared: Prepared } | undefined;

  constructor(thread: PreparationThread, key: string) {
    this.#thread = thread;
    this.#key = key;
  }

  /** Rejects with the signal's reason, and with whatever `resolve` does. */
  async prepare(task: PreparationTask, resolve: ResolveAddresses, signal: AbortSignal): Promise<Prepared> {
    const { body, ...others } = task;
    const name = JSON.stringify(others);
    if (this.#kept?.name === name) return this.#kept.prepared;
    let isResolved = false;
    const resolving: ResolveAddresses = (found) => {
      isResolved = true;
      return resolve(found);
    };
    const isAtOnce = body.length <= preparedAtOnceBytesMax && !isEstimated(task);
    const prepared = isAtOnce ? await prepare(task, resolving) : await this.#inThread(task, resolving, signal);
    // What was fetched is let go of between two targets.
    this.#kept = isResolved ? undefined : { name, prepared };
    return prepared;
  }

  /** An answer has begun: hardly another target will be asked. */
  forget(): void {
    this.#kept = undefined;
  }

  async #inThread(task: PreparationTask, resolve: ResolveAddresses, signal: AbortSignal): Promise<Prepared> {
    let answer = await this.#thread.prepare(task, undefined, this.#key, signal);
    if (answer.kind === "addresses") answer = await this.#thread.prepare(task, await resolve(answer.found), this.#key, signal);
    if (answer.kind === "addresses") throw new Error("the addresses of a request are others than before");
    if (answer.kind === "refused" || answer.kind === "counted") return answer;
    const request = { ...answer.request, body: bufferOf(answer.request.body) };
    if (answer.kind !== "conversation" || answer.settings === undefined) return { ...answer, request };
    return { ...answer, request, settings: bufferOf(answer.settings) };
  }
}
