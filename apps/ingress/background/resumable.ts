/**
 * Streams that callers can resume. A caller asks for it with a header, or its group does. When the
 * connection breaks, it sends the request again with `Last-Event-ID`, or with the same
 * `Idempotency-Key`, to any ingress, and receives the events that it has not seen. The answer goes
 * on meanwhile.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Framing } from "#dialects/codec.ts";
import type { Failure } from "#dialects/errors.ts";
import { isForm } from "#operations/operations.ts";
import type { ServedEndpoint } from "../common/endpoints.ts";
import { invalidRequest, Refusal, type Result } from "../common/refusal.ts";
import { fingerprintOf, nameOf } from "../idempotency/idempotency.ts";
import type { ResolvedBody, Storing } from "../stored/storing.ts";
import type { LogPosition } from "./answer-log.ts";
import type { DetachedGenerations } from "./detached.ts";
import type { LogFollower } from "./log-follower.ts";

const resumableHeader = "x-sluice-resumable";

/**
 * The id of an event: that of its stream, and its number. Streams of an earlier version have ids
 * with `idem_`.
 */
const eventId = /^(gen_[0-9a-z]{1,60}|idem_[0-9a-f]{64})\.(\d{1,9})$/;

export interface ResumableOptions {
  catalogue(): Catalogue;
  storing: Storing;
  detached: DetachedGenerations;
  follower: LogFollower;
}

/** A request for a stream, its body read and checked. */
export interface StreamRequest {
  request: FastifyRequest;
  reply: FastifyReply;
  endpoint: ServedEndpoint;
  resolved: ResolvedBody;
  /** The catalogue's id of the model, as the caller gave it. */
  model: string;
  /** Admits a request that gets the answer of another one. */
  replay(): Promise<Result<unknown>>;
}

export class ResumableStreams {
  readonly #options: ResumableOptions;

  constructor(options: ResumableOptions) {
    this.#options = options;
  }

  /** Does the request begin or resume such a stream? */
  concerns({ headers, caller }: FastifyRequest, { operation }: ServedEndpoint, framing: Framing): boolean {
    if (framing !== "sse" || isForm(operation)) return false;
    return (
      headers[resumableHeader] === "true" ||
      eventId.test(String(headers["last-event-id"] ?? "")) ||
      this.#options.catalogue().groups.get(caller.group)?.resumableStreams === true
    );
  }

  /** Takes over the response, unless it is refused. */
  async serve({ request, reply, endpoint, resolved, model, replay }: StreamRequest): Promise<Refusal | undefined> {
    const { storing, detached } = this.#options;
    const owner = storing.ownerOf(request);
    if (owner === undefined) return new Refusal(needsStorage);
    const lastId = request.headers["last-event-id"];
    const [, seenId, seenNumber] = eventId.exec(String(lastId ?? "")) ?? [];
    if (lastId !== undefined && seenId === undefined) return new Refusal(badEventId);
    if (seenId !== undefined) {
      const refusal = await detached.checkFingerprint(owner, seenId, fingerprintOf(request), { gone, other });
      return refusal ?? this.follow(request, reply, { owner, id: seenId, after: Number(seenNumber) });
    }
    const name = nameOf(request);
    if (name instanceof Refusal) return name;
    const source = { request, owner, endpoint, resolved, live: reply.raw, name, fingerprint: fingerprintOf(request) };
    const begun = await detached.beginResumable(source, {
      model,
      answered: () => storing.answered(request, endpoint, resolved, { framing: "sse" }),
    });
    if (begun instanceof Refusal) return begun;
    if (begun.isNew) {
      request.isGeneration = true;
      reply.hijack();
      return undefined;
    }
    const replayed = await replay();
    return replayed instanceof Refusal ? replayed : this.follow(request, reply, { owner, id: begun.id, after: -1 });
  }

  /**
   * Sends what the log of an answer has behind the event with the number `after`, and what comes.
   * Returns a refusal before it has begun.
   */
  follow(request: FastifyRequest, reply: FastifyReply, position: LogPosition): Promise<Refusal | undefined> {
    return this.#options.follower.follow(request, reply, position, gone);
  }
}

const needsStorage = invalidRequest(
  `The gateway stores no answers for this key, so its streams can't be resumed: send the request without ${resumableHeader}.`,
  resumableHeader,
);

const badEventId = invalidRequest(
  "last-event-id is not the id of an event of a stream that this gateway has sent: send the request without it.",
  "last-event-id",
);

const other: Failure = {
  code: "unprocessable",
  message: "The stream that last-event-id names answers another request: send the same request to resume it.",
  param: "last-event-id",
};
const gone: Failure = {
  code: "not_found",
  message: "The stream that last-event-id names is not stored any more: send the request again without it.",
  param: "last-event-id",
};
