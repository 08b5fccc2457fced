/**
 * Reads small bodies at once and large ones in a thread, so that no body blocks the event loop for
 * long.
 */

import type { Failure } from "#dialects/errors.ts";
import { bufferOf, copyOf, TaskThreads, TaskTimeout } from "#service/task-thread.ts";
import { bodyReadAtOnceBytesMax, bodyReadTimeoutMs } from "../common/bounds.ts";
import { endpoints, nameOf, type ServedEndpoint } from "../common/endpoints.ts";
import { tooLarge } from "../common/failures.ts";
import { invalidRequest, Refusal, type Result } from "../common/refusal.ts";
import { checkBody, type FormSource, type ReadBody, readForm, readJson } from "./body.ts";
import type { BodyAnswer, BodyTask } from "./body-thread.ts";
import { type InteractionRequest, readInteraction } from "./interactions.ts";
import { type ModelPath, type OllamaRequest, readOllamaRequest } from "./ollama.ts";
import type { CallerFrame } from "./socket-frame.ts";
import { validatorOf } from "./validation.ts";

export const isReadAtOnce = ({ length }: { length: number }): boolean => length <= bodyReadAtOnceBytesMax;

const tookTooLong = invalidRequest(
  `To read this request takes more than ${bodyReadTimeoutMs / 1_000} s of CPU time. Send a smaller or a simpler one.`,
);
const tooBusy: Failure = {
  code: "overloaded",
  message: "The gateway is too busy to read this request; try again.",
  retryAfterSeconds: 5,
};

/**
 * Compiles the schemas of all endpoints, for 0.3 seconds. Otherwise the first request of each
 * endpoint waits for its schema, and others for it.
 */
export function compileSchemas(): void {
  for (const { schema } of endpoints.values()) validatorOf(schema);
}

export class BodyReader {
  readonly #thread = new TaskThreads<BodyTask, BodyAnswer | { failure: Failure }>(
    new URL("./body-thread.ts", import.meta.url),
    bodyReadTimeoutMs,
  );

  /**
   * Reads the body of a request to this endpoint; of a large one only its settings. Keys share the
   * time of the threads.
   */
  read(
    endpoint: ServedEndpoint,
    bytes: Buffer,
    { key, form }: { key: string; form?: FormSource | undefined },
  ): Result<ReadBody> | Promise<Result<ReadBody>> {
    const { bodyBytesMax = Number.POSITIVE_INFINITY } = endpoint;
    if (bytes.length > bodyBytesMax) return new Refusal(tooLarge(bodyBytesMax));
    if (!isReadAtOnce(bytes))
      return this.#inThread((copy) => ({ kind: "body", bytes: copy, endpoint: nameOf(endpoint), form }), bytes, {
        key,
      }) as Promise<Result<ReadBody>>;
    const checked = (read: Result<unknown>) => (read instanceof Refusal ? read : checkBody(endpoint, read));
    return form === undefined ? checked(readJson(bytes)) : readForm(endpoint, bytes, form).then(checked);
  }

  /** Reads a request of Ollama's clients, and translates it. */
  async readOllama(path: ModelPath, bytes: Buffer, key: string): Promise<Result<OllamaRequest>> {
    if (isReadAtOnce(bytes)) return readOllamaRequest(path, bytes);
    const read = (await this.#inThread((copy) => ({ kind: "ollama", bytes: copy, path }), bytes, {
      key,
    })) as Result<OllamaRequest>;
    // Bytes lose their class on the way between threads.
    if (!(read instanceof Refusal) && read.bytes !== undefined) read.bytes = bufferOf(read.bytes);
    return read;
  }

  /** Reads a request of Gemini's Interactions API, and translates it. */
  async readInteraction(bytes: Buffer, key: string): Promise<Result<InteractionRequest>> {
    if (isReadAtOnce(bytes)) return readInteraction(bytes);
    const read = (await this.#inThread((copy) => ({ kind: "interaction", bytes: copy }), bytes, {
      key,
    })) as Result<InteractionRequest>;
    if (!(read instanceof Refusal)) read.bytes = bufferOf(read.bytes);
    return read;
  }

  /** Reads a large frame of a WebSocket. */
  async readFrame(bytes: Buffer, key: string): Promise<Result<CallerFrame>> {
    const read = (await this.#inThread((copy) => ({ kind: "frame", bytes: copy }), bytes, { key })) as Result<
      Omit<CallerFrame, "bytes">
    >;
    return read instanceof Refusal ? read : { ...read, bytes };
  }

  async #inThread(
    taskOf: (copy: Uint8Array) => BodyTask,
    bytes: Buffer,
    { key }: { key: string },
  ): Promise<Result<BodyAnswer>> {
    try {
      const answer = await this.#thread.run(
        () => {
          const copy = copyOf(bytes);
          return { value: taskOf(copy), transfer: [copy.buffer] };
        },
        { key, bytes: bytes.length },
      );
      return "failure" in answer ? new Refusal(answer.failure) : answer;
    } catch (error) {
      if (error instanceof TaskTimeout) return new Refusal(error.isBusy ? tooBusy : tookTooLong);
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
