/** Sends the log of an answer to a caller, while the answer is written or afterwards. */
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { emptyLines, keepAliveAmongIds, type Profile } from "#dialects/profile.ts";
import { profiles } from "#dialects/profiles.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import type { Clock } from "#service/clock.ts";
import type { Capacity } from "../common/capacity.ts";
import { dialectOf, requestIdHeadersOf } from "../common/endpoints.ts";
import { holdSlot, workerLost } from "../common/failures.ts";
import { Refusal } from "../common/refusal.ts";
import { withoutIds } from "../response/event-cutter.ts";
import { breakSoon } from "../response/generation-response.ts";
import { logIdOf, type SealedStore } from "../stored/sealed-store.ts";
import { type LogPosition, readLog } from "./answer-log.ts";
import type { Runs } from "./runs.ts";

export interface LogFollowerOptions {
  store: SealedStore;
  runs: Runs;
  clock: Clock;
  events: EventSink<IngressEvents>;
  /** Callers that read logs. */
  followers: Capacity;
  keepAliveMs: number;
}

export class LogFollower {
  readonly #options: LogFollowerOptions;

  constructor(options: LogFollowerOptions) {
    this.#options = options;
  }

  /**
   * Sends the log of an answer from behind the event with the number `after`; what follows may be
   * an error, if the rest is lost. Returns a refusal before the response has begun: `unless` if
   * there is no log.
   */
  async follow(
    request: FastifyRequest,
    reply: FastifyReply,
    position: LogPosition,
    unless: Failure,
  ): Promise<Refusal | undefined> {
    const { store, followers, events } = this.#options;
    const { owner, id, after } = position;
    const response = reply.raw;
    const [log] = await store.read(owner, [logIdOf(id)]);
    if (log === undefined) return new Refusal(unless);
    const slot = holdSlot(response, followers, events, { limit: "followers", keyId: request.caller.id });
    if (slot instanceof Refusal) return slot;
    reply.hijack();
    const place = { next: after + 1 };
    const outcome = await this.#send(request, response, position, place).catch(() => "lost" as const);
    if (outcome === "end") response.end();
    else if (outcome === "lost") this.#fail(request, response, place.next);
    else if (outcome === "left") response.destroy();
    else if (profileOf(request).breaksAfterError) breakSoon(response);
    else response.end();
    return undefined;
  }

  /** Tells the caller in its dialect that the rest of the answer is lost. */
  #fail(request: FastifyRequest, response: ServerResponse, events: number): void {
    const { statusOf, errorBodyOf, errorEventOf, breaksAfterError } = profileOf(request);
    if (!response.headersSent) {
      const headers = { "content-type": "application/json", ...requestIdHeadersOf(request) };
      response.writeHead(statusOf(workerLost.code), headers).end(errorBodyOf(workerLost, request.id));
      return;
    }
    const event = errorEventOf(workerLost, { requestId: request.id, model: "", events });
    if (breaksAfterError) response.write(event, () => breakSoon(response));
    else response.end(event);
  }

  async #send(
    request: FastifyRequest,
    response: ServerResponse,
    position: LogPosition,
    place: { next: number },
  ): Promise<"end" | "failed" | "lost" | "left"> {
    const { keepAliveMs, clock, runs } = this.#options;
    const { keepAlive, rejectsEventIds } = profileOf(request);
    const sendsIds = rejectsEventIds?.(request.headers) !== true;
    let sentAt = clock.now();
    const { owner, id } = position;
    return readLog(this.#options, position, {
      head: ({ status, headers }) => {
        if (!response.headersSent) response.writeHead(status, { ...headers, ...requestIdHeadersOf(request) });
      },
      async events(bytes, next) {
        sentAt = clock.now();
        place.next = next;
        if (response.closed || response.write(sendsIds ? bytes : withoutIds(bytes))) return;
        await new Promise<void>((resolve) => {
          response.once("drain", resolve);
          response.once("close", resolve);
        });
      },
      waits(now) {
        if (response.headersSent && now - sentAt >= keepAliveMs) {
          sentAt = now;
          const due = place.next === 0 ? emptyLines : keepAlive;
          response.write(sendsIds ? keepAliveAmongIds(due) : due);
        }
        return !response.closed;
      },
      isWritten: () => runs.has({ keyId: owner.keyId, id }),
    });
  }
}

const profileOf = ({ url, headers }: FastifyRequest): Profile => profiles[dialectOf(url, headers)];
