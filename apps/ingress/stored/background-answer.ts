/**
 * The answer of a response with `background: true`: its events are numbered from the gateway's own first two, and its outcome is stored as the response that
 * clients poll for. https://platform.openai.com/docs/guides/background
 */
import { setTimeout as delay } from "node:timers/promises";
import { isObject, jsonOf, listOf, objectOf, parsedObject, textOf } from "#dialects/json.ts";
import { responseBodyOf } from "#dialects/openai-responses/answer.ts";
import { SseReader } from "#dialects/sse.ts";
import type { Clock } from "#service/clock.ts";
import { logAppendMsMax, loggedEventBytesMax, logRetryMs } from "../bounds.ts";
import { unavailable } from "../http/failures.ts";
import { Refused } from "../http/refused.ts";
import { outputOf } from "./items.ts";
import type { ErrorResponse } from "./logged-response.ts";
import type { StoreOwner } from "./sealed-store.ts";
import type { StoredResponses } from "./stored-responses.ts";

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

export interface BackgroundAnswerOptions {
  id: string;
  owner: StoreOwner;
  clock: Clock;
  responses: StoredResponses;
  /** Of the request, as the stored response shows them. */
  queued: Response;
}

export class BackgroundAnswer {
  readonly #options: BackgroundAnswerOptions;
  readonly #reader = new SseReader(loggedEventBytesMax);
  readonly #items = new Map<number, unknown>();
  #final: Response | undefined;
  #isInProgress = false;

  constructor(options: BackgroundAnswerOptions) {
    this.#options = options;
  }

  /** An event of the generation as callers get it; undefined for one that they have, or that must wait until the response is stored. */
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

  /** Stores the outcome; resolves to the event that ends a stream. Never rejects. `number` is that event's. */
  async ending(error: ErrorResponse | undefined, number: number): Promise<Buffer[]> {
    const { id, owner, responses, queued } = this.#options;
    const final = error === undefined && this.#final !== undefined ? this.#final : failedOf(this.#ownOf(queued), error);
    const stored = await this.#stored(() => responses.update(owner, id, (found) => ({ ...found, ...final }))).catch(
      () => final,
    );
    const { status } = stored;
    // There is no event for a response that was cancelled.
    if (status === "cancelled") return [];
    return [eventOf({ type: `response.${String(status)}`, sequence_number: number, response: stored })];
  }

  /** Redis may be away for a while. Rejects when it is away for long, or the response is not stored any more. */
  async #stored(store: () => Promise<Response>): Promise<Response> {
    const { clock } = this.#options;
    const until = clock.now() + logAppendMsMax;
    for (;;)
      try {
        return await store();
      } catch (error) {
        if (!(error instanceof Refused && error.failure === unavailable) || clock.now() > until) throw error;
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
      .update(owner, id, (found) => (found.status === "queued" ? { ...found, status: "in_progress" } : undefined))
      .catch(() => undefined);
  }
}

/** What clients read of a failure. */
function failedOf(response: Response, error: ErrorResponse | undefined): Response {
  const { code, type, message } = objectOf(objectOf(parsedObject(Buffer.from(error?.body ?? ""))).error);
  return {
    ...response,
    status: "failed",
    error: {
      code: textOf(code) ?? textOf(type) ?? serverError.code,
      message: textOf(message) ?? serverError.message,
    },
    usage: null,
  };
}
