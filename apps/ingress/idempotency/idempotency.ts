/**
 * `Idempotency-Key`: a retry with the same key and body joins the running generation or receives
 * the stored answer (https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/).
 * A failed answer is not stored: its Idempotency-Key is free again, for the next request. One that
 * waited for the answer gets an error and does not run itself.
 */
import { createHash, randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import { hashOf } from "#access/key.ts";
import type { Failure } from "#dialects/errors.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { renewEveryMsOf } from "#service/lease.ts";
import { LiveMap } from "#service/live-map.ts";
import type { LimitsState } from "../admission/rate-limits.ts";
import { elsewhereCheckMs, elsewhereMsMax, idempotencyKeyLengthMax, idempotencyLeaseMs } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import { requestIdHeadersOf } from "../common/endpoints.ts";
import { holdSlot, otherRequest } from "../common/failures.ts";
import { outlastRedis } from "../common/outlast-redis.ts";
import { invalidRequest, Refusal, type Result } from "../common/refusal.ts";
import { headersOf, SharedResponse } from "../response/shared-response.ts";
import { type EntryClaim, StoredAnswers, type StoredAnswersOptions } from "./stored-answers.ts";

/**
 * How often the claim of a running generation is renewed. Each has a turn of its own, so that
 * thousands do not renew in one turn of the event loop.
 */
const renewMs = renewEveryMsOf(idempotencyLeaseMs);

const header = "idempotency-key";

const invalidHeader = invalidRequest(
  `The header ${header} must be 1 to ${idempotencyKeyLengthMax} printable ASCII characters.`,
  header,
);
const stillRunning: Failure = {
  code: "unavailable",
  message: `The request with this ${header} is still running; send it again to get its answer.`,
  retryAfterSeconds: 2,
};

const endedWithout: Failure = {
  code: "unavailable",
  message: `The request with this ${header} ended without an answer that others can have; send it again.`,
  retryAfterSeconds: 1,
};

interface Running {
  claim: EntryClaim;
  response: SharedResponse;
  renewedAt: number;
}

export interface IdempotencyOptions extends StoredAnswersOptions {
  /** The slots of generations: a request that waits for another's answer takes one as well. */
  slots: Capacity;
  /** Bytes of request bodies, and of answers that are shared. */
  bodyBytes: Capacity;
  events: EventSink<IngressEvents>;
}

/** Begins the generation with this layer. Calls `onEnd` when it is over. */
type Begin = (shared: SharedResponse, onEnd: (outcome: string) => void) => Refusal | undefined;
/** Admits a request that gets another request's answer. */
type Replay = () => Promise<Result<LimitsState> | undefined>;

export class Idempotency {
  readonly #options: IdempotencyOptions;
  readonly #stored: StoredAnswers;
  /** The generations of this ingress, by the key of their entry. */
  readonly #running = new LiveMap<string, Running>();
  readonly #self = randomUUID();

  constructor(options: IdempotencyOptions) {
    this.#options = options;
    this.#stored = new StoredAnswers(options);
    // Redis may have come back empty.
    options.redis.on("ready", () => {
      for (const running of this.#running.values()) this.#renew(running);
      this.#stored.releaseAgain();
    });
  }

  /** Has the request an Idempotency-Key? */
  concerns({ headers }: FastifyRequest): boolean {
    return headers[header] !== undefined;
  }

  /**
   * Renews the claims of running generations, and releases those of others. Call it about once a
   * second.
   */
  tick(now: number): void {
    this.#stored.releaseAgain();
    for (const running of this.#running.values()) if (now - running.renewedAt >= renewMs) this.#renew(running);
  }

  /** Takes over the response, unless it is refused. */
  async serve(
    request: FastifyRequest,
    response: ServerResponse,
    begin: Begin,
    replay: Replay,
  ): Promise<Refusal | undefined> {
    const { clock, slots, events } = this.#options;
    const name = nameOf(request);
    if (name instanceof Refusal) return name;
    const claimedBy = `${this.#self} ${request.id}`;
    const claim = this.#stored.claimOf(request.caller.id, hashOf(String(name)), fingerprintOf(request), claimedBy);
    /**
     * Headers of this request, once it is counted against its caller's limits, or their refusal:
     * that happens once, whatever it then finds.
     */
    let own: Result<Record<string, string>> | undefined;
    const count = async () => {
      const state = await replay();
      return state instanceof Refusal ? state : { ...requestIdHeadersOf(request), ...state?.headers };
    };
    if (response.closed) return undefined;
    const slot = holdSlot(response, slots, events, { limit: "generations", keyId: request.caller.id });
    if (slot instanceof Refusal) return slot;
    const until = clock.now() + elsewhereMsMax;
    /** Another request with this key was seen to run: at this ingress or elsewhere. */
    let joined: "here" | "elsewhere" | undefined;
    /** Since when Redis has no entry of it. */
    let goneSince: number | undefined;
    while (!response.closed) {
      if (own instanceof Refusal) return own;
      const running = this.#running.get(claim.key);
      if (running !== undefined) {
        if (running.claim.fingerprint !== claim.fingerprint) return new Refusal(otherRequest);
        joined = "here";
        if (own === undefined) {
          own = await count();
          // The generation may have ended meanwhile.
          continue;
        }
        return running.response.join(response, own) ? undefined : new Refusal(stillRunning);
      }
      if (joined === undefined && (await this.#stored.claim(claim, () => !response.closed))) {
        slot.end();
        return this.#begin(claim, begin);
      }
      const entry = await outlastRedis(this.#options, () => this.#stored.find(claim));
      if (entry === undefined) {
        if (joined === undefined) continue;
        // A Redis that lost the entry has it again once it is renewed.
        goneSince ??= clock.now();
        if (joined === "here" || clock.now() - goneSince > renewMs) return new Refusal(endedWithout);
        await setTimeout(elsewhereCheckMs);
        continue;
      }
      goneSince = undefined;
      if (entry.fingerprint !== claim.fingerprint) return new Refusal(otherRequest);
      if (entry.answer !== undefined) {
        own ??= await count();
        if (own instanceof Refusal) return own;
        response.writeHead(entry.answer.status, headersOf(entry.answer, own));
        response.end(entry.answer.body);
        return undefined;
      }
      joined ??= "elsewhere";
      if (clock.now() > until) return new Refusal(stillRunning);
      if (this.#running.get(claim.key) === undefined) await setTimeout(elsewhereCheckMs);
    }
    return undefined;
  }

  #renew(running: Running): void {
    running.renewedAt = this.#options.clock.now();
    void this.#stored.renew(running.claim);
  }

  #begin(claim: EntryClaim, begin: Begin): Refusal | undefined {
    const { bodyBytes, clock } = this.#options;
    const response = new SharedResponse(bodyBytes.claim(claim.keyId));
    const running: Running = { claim, response, renewedAt: clock.now() };
    this.#running.set(claim.key, running);
    const forget = () => {
      if (this.#running.get(claim.key) === running) this.#running.delete(claim.key);
    };
    const free = () => {
      forget();
      void this.#stored.release(claim).finally(() => response.forget());
    };
    const keep = () => {
      const answer = response.kept;
      if (answer === undefined || answer.status >= 300) {
        free();
        return;
      }
      void this.#stored.store(claim, answer).finally(() => {
        forget();
        response.forget();
      });
    };
    let hasBegun = false;
    try {
      const refusal = begin(response, (outcome) => {
        // The end may wait until the answer is stored for other purposes.
        if (outcome === "complete") void response.settled.then(keep);
        else free();
      });
      hasBegun = refusal === undefined;
      return refusal;
    } finally {
      if (!hasBegun) free();
    }
  }
}

/** The request's Idempotency-Key; undefined if it has none. Refuses one that is not valid. */
export function nameOf({ headers }: FastifyRequest): Result<string | undefined> {
  const name = headers[header];
  if (name === undefined) return undefined;
  if (typeof name !== "string" || name.length > idempotencyKeyLengthMax || !/^[\x20-\x7e]+$/.test(name))
    return new Refusal(invalidHeader);
  return name;
}

/**
 * A hash of the path and the body. A form's boundary is left out, for it differs each time the form
 * is sent.
 */
export function fingerprintOf({ originalUrl, bytes, headers }: FastifyRequest): string {
  const hash = createHash("sha256").update(`${originalUrl}\n`);
  const boundary = /boundary="?([^";]+)/.exec(headers["content-type"] ?? "")?.[1];
  if (boundary === undefined) return hash.update(bytes).digest("hex");
  // The form was parsed before, so the number of its marks is bounded like its fields.
  const mark = Buffer.from(`--${boundary}`);
  let from = 0;
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, from)) {
    hash.update(bytes.subarray(from, at));
    from = at + mark.length;
  }
  return hash.update(bytes.subarray(from)).digest("hex");
}
