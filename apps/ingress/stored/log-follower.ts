/** Sends the log of an answer to a caller, while the answer is written or afterwards. */
import type { ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import type { Clock } from "#service/clock.ts";
import type { Capacity } from "../admission/capacity.ts";
import { requestIdHeadersOf } from "../http/endpoints.ts";
import { overloadOf } from "../http/failures.ts";
import { Refused } from "../http/refused.ts";
import { logIdOf, readLog } from "./answer-log.ts";
import type { Runs } from "./runs.ts";
import type { SealedStore, StoreOwner } from "./sealed-store.ts";

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

  /** Sends the log of an answer from behind the event with the number `after`. Rejects with Refused before the response has begun; with `unless` if there is no log. */
  async follow(
    request: FastifyRequest,
    response: ServerResponse,
    owner: StoreOwner,
    id: string,
    after: number,
    unless: Failure,
    takeOver: () => void,
  ): Promise<void> {
    const { store, followers, events } = this.#options;
    if ((await store.parts(owner, logIdOf(id), 0, 1)) === undefined) throw new Refused(unless);
    const slot = followers.claim(request.caller.id);
    const shortage = slot.hold(1);
    if (shortage !== undefined) throw new Refused(overloadOf(events, "followers", shortage, request.caller.id));
    response.once("close", () => slot.end());
    takeOver();
    const outcome = await this.#send(request, response, owner, id, after).catch(() => "lost" as const);
    if (outcome === "end") response.end();
    else response.destroy();
  }

  async #send(
    request: FastifyRequest,
    response: ServerResponse,
    owner: StoreOwner,
    id: string,
    after: number,
  ): Promise<"end" | "lost" | "left"> {
    const { keepAliveMs, clock, runs } = this.#options;
    let sentAt = clock.now();
    return readLog(this.#options, owner, id, after, {
      head: ({ status, headers }) => {
        if (!response.headersSent) response.writeHead(status, { ...headers, ...requestIdHeadersOf(request) });
      },
      async events(bytes) {
        sentAt = clock.now();
        if (response.closed || response.write(bytes)) return;
        await new Promise<void>((resolve) => {
          response.once("drain", resolve);
          response.once("close", resolve);
        });
      },
      waits(now) {
        if (response.headersSent && now - sentAt >= keepAliveMs) {
          sentAt = now;
          response.write(": keep-alive\n\n");
        }
        return !response.closed;
      },
      isWritten: () => runs.has({ keyId: owner.keyId, id }),
    });
  }
}
