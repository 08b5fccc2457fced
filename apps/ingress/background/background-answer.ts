/**
 * The answer of a response with `background: true`: its events are numbered from the gateway's own
 * first two, and its outcome is stored as the response that clients poll for.
 * https://platform.openai.com/docs/guides/background
 */
import { setTimeout as delay } from "node:timers/promises";
import { responseBodyOf } from "#dialects/openai-responses/answer.ts";
import type { Clock } from "#service/clock.ts";
import { isObject, jsonOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { SseReader } from "#wire/sse.ts";
import { logAppendMsMax, loggedEventBytesMax, logRetryMs } from "../common/bounds.ts";
import { unavailable } from "../common/failures.ts";
import { outputOf } from "../common/items.ts";
import { Refusal } from "../common/refusal.ts";
import type { ErrorResponse } from "../response/logged-response.ts";
import type { StoreOwner } from "../stored/sealed-store.ts";
import type { StoredResponses } from "../stored/stored-responses.ts";

type Response = Record<string, unknown>;

/** The response object before there is an answer. `createdAt` in whole seconds since 1970. */
export function queuedResponseOf(id: string, model: string, body: Response, createdAt: number): Response {
  const request = { system: [], messages: [], tools: [], settings: {} };
  const context = { id: id.replace(/^resp_/, ""), model, createdAt, framing: "whole", request, body } as const;
  return {
    ...responseBodyOf(context, [], { status: "in_progress" }, null),
    status: "queued",
    background: true,
    store: true,
  };
}

const eventOf = (fields: { type: string } & Response): Buffer =>
  Buffer.from(`event: ${fields.type}\ndata: ${jsonOf(fields)}\n\n`);

/** The events that a stream begins with, before its generation has a worker. */
export const firstEventsOf = (response: Response): Buffer[] => [
  eventOf({ type: "response.created", sequence_number: 0, response }),
  eventOf({ type: "response.queued", sequence_number: 1, response }),
];

const serverError = { code: "server_error", message: "The response could not be completed; create it again." };
const notStored = { code: "server_error", message: "The answer could not be stored; create the response again." };

export interface BackgroundAnswerOptions {
  id: string;
  owner: StoreOwner;
  clock: Clock;
  responses: StoredResponses;
  /** The stored response before it has an answer. */
  queued: Response;
}

export class BackgroundAnswer {
  readonly #options: BackgroundAnswerOptions;
  readonly #reader = new SseReader(loggedEventBytesMax);
  readonly #items = new Map<number, unknown>();
  #final: Response | undefined;
  #isInProgress = false;
  #endStatus: string | undefined;

  constructor(options: BackgroundAnswerOptions) {
    this.#options = options;
  }

  /**
   * An event of the generation as callers get it; undefined for one that they have, or that must
   * wait until the response is stored.
   */
  changed(event: Buffer, number: number): Buffer | undefined {
    const [read] = this.#reader.push(event);
    const fields = read && parsedObject(read.data);
    if (fields === undefined) return undefined;
    const type = textOf(fields.type) ?? "";
    if (type === "response.created" || type === "response.queued") return undefined;
    if (type === "response.output_item.done" && typeof fields.output_index === "number")
      this.#items.set(fields.output_index, fields.item);
    const response = isObject(fields.response) ? this.#ownOf(fields.response) : undefined;
    if (type === "response.completed" || type === "response.incomplete" || type === "response.failed") {
      this.#final = response;
      return undefined;
    }
    return eventOf({ ...fields, type, sequence_number: number, ...(response !== undefined && { response }) });
  }

  /** A whole answer of the generation. */
  whole(body: Buffer): void {
    const response = parsedObject(body);
    if (response !== undefined) this.#final = this.#ownOf(response);
  }

  /**
   * The status with which the response is stored, or `deleted`: nobody has to end it any more.
   * Undefined before.
   */
  get endStatus(): string | undefined {
    return this.#endStatus;
  }

  /**
   * Stores the outcome, or a failure where Redis does not take the outcome in time; resolves to the
   * event that ends a stream. Never rejects. `number` is that event's. Without an `endStatus`
   * afterwards, the response still waits for its end.
   */
  async ending(error: ErrorResponse | undefined, number: number): Promise<Buffer[]> {
    const queued = this.#ownOf(this.#options.queued);
    const final = error === undefined && this.#final !== undefined ? this.#final : failedOf(queued, error);
    const stored =
      (await this.#stored(final, logAppendMsMax)) ?? (await this.#stored({ ...queued, ...failure(notStored) }, 0));
    if (stored !== undefined) this.#endStatus = stored === "gone" ? "deleted" : String(stored.status);
    // There is no event for a response that was cancelled or deleted.
    if (stored === "gone" || stored?.status === "cancelled") return [];
    const ended = stored ?? { ...queued, ...failure(notStored) };
    return [eventOf({ type: `response.${String(ended.status)}`, sequence_number: number, response: ended })];
  }

  /**
   * Redis may be away or full for a while, and is asked again for `ms`. Undefined when it did not
   * take the response in time, or it is too large.
   */
  async #stored(final: Response, ms: number): Promise<Response | "gone" | undefined> {
    const { id, owner, responses, clock } = this.#options;
    const until = clock.now() + ms;
    for (;;) {
      const stored = await responses
        .update(owner, id, (response) => ({ ...response, ...final }))
        .catch(() => new Refusal(unavailable));
      if (!(stored instanceof Refusal)) return stored;
      if (stored.failure.code === "not_found") return "gone";
      if (clock.now() >= until) return undefined;
      await delay(logRetryMs);
    }
  }

  /** The response under its own id, with what its upstream does not know. */
  #ownOf(response: Response): Response {
    const { id, queued } = this.#options;
    const output = listOf(response.output);
    const items = outputOf(this.#items);
    return {
      ...response,
      id,
      background: true,
      store: true,
      created_at: queued.created_at,
      previous_response_id: queued.previous_response_id ?? null,
      conversation: queued.conversation ?? null,
      output: output.length > 0 || response.status === "in_progress" ? output : items,
    };
  }

  /** A worker has taken the generation. */
  begun(): void {
    if (this.#isInProgress) return;
    this.#isInProgress = true;
    const { id, owner, responses } = this.#options;
    void responses
      .update(owner, id, (stored) => (stored.status === "queued" ? { ...stored, status: "in_progress" } : undefined))
      .catch(() => undefined);
  }
}

/** A failure as clients read it. */
function failedOf(response: Response, error: ErrorResponse | undefined): Response {
  const { code, type, message } = objectOf(objectOf(parsedObject(Buffer.from(error?.body ?? ""))).error);
  return {
    ...response,
    ...failure({
      code: textOf(code) ?? textOf(type) ?? serverError.code,
      message: textOf(message) ?? serverError.message,
    }),
  };
}

const failure = (error: { code: string; message: string }): Response => ({ status: "failed", error, usage: null });
