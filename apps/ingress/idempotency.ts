/**
 * `Idempotency-Key`: a POST that a caller sends again, with the same key and body, joins the running generation or gets its stored answer
 * (https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/). A failed or too large answer is not stored: its key is free again.
 */
import { createHash, randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import type { Redis } from "ioredis";
import { LiveMap } from "#relay/live-map.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { runScript, scriptOf } from "#service/script.ts";
import type { Failure } from "#wire/errors.ts";
import type { AnswerResponse } from "./answer.ts";
import { requestIdHeadersOf } from "./endpoints.ts";
import { Refused } from "./requests.ts";
import { headersOf, type KeptBudget, SharedResponse } from "./shared-response.ts";

/** How long a running generation's claim outlives its ingress, and when it is renewed. */
const claimMs = 15_000;
const renewMs = 5_000;
/** How long a request waits for an answer that runs at another ingress, and how often it looks. */
const elsewhereMsMax = 30_000;
const lookMs = 200;
const headerLengthMax = 255;

const header = "idempotency-key";

/**
 * KEYS[1] the entry. ARGV: the claim's value; what is to lie there, the claim, an answer or nothing; its life in ms.
 * Returns 1 when that is so, 0 when another's lies there. Atomic: it takes the place of our claim, or of nothing where Redis lost that.
 */
const placeScript = scriptOf(`
local found = redis.call("GET", KEYS[1])
if found and found ~= ARGV[1] then return 0 end
if ARGV[2] == "" then redis.call("DEL", KEYS[1]) else redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3]) end
return 1`);

const invalidHeader: Failure = {
  code: "invalid_request",
  message: `The header ${header} must be 1 to ${headerLengthMax} printable ASCII characters.`,
  param: header,
};
const otherRequest: Failure = { code: "unprocessable", message: `This ${header} was used with another request; use a new one for each.`, param: header };
const stillRunning: Failure = {
  code: "unavailable",
  message: `The request with this ${header} is still running; send it again to get its answer.`,
  retryAfterSeconds: 2,
};
const unavailable: Failure = {
  code: "unavailable",
  message: "The gateway can't take requests at the moment; try again in a moment.",
  retryAfterSeconds: 1,
};

interface Running {
  key: string;
  fingerprint: string;
  claim: string;
  response: SharedResponse;
  renewedAt: number;
}

/** What lies under a key in Redis: a line of this as JSON, and behind it the answer's bytes, once there are any. */
interface Entry {
  fingerprint: string;
  status?: number;
  headers?: Record<string, string>;
}

export interface IdempotencyOptions {
  redis: Redis;
  keyspace: Keyspace;
  budget: KeptBudget;
  /** How long an answer is stored. */
  windowMs: number;
}

/** Begins the generation with this response, or throws; `over` is to be called when it is over. */
type Begin = (response: AnswerResponse, over: (outcome: string) => void) => void;

export class Idempotency {
  readonly #options: IdempotencyOptions;
  readonly #running = new LiveMap<string, Running>();
  readonly #self = randomUUID();

  constructor(options: IdempotencyOptions) {
    this.#options = options;
    // It may have come back empty.
    options.redis.on("ready", () => {
      for (const running of this.#running.values()) this.#renew(running);
    });
  }

  /** Does the request ask for it? */
  concerns({ headers }: FastifyRequest): boolean {
    return headers[header] !== undefined;
  }

  /** Call it about once a second. */
  tick(now: number): void {
    for (const running of this.#running.values()) if (now - running.renewedAt >= renewMs) this.#renew(running);
  }

  /** Takes over the response, or throws Refused. */
  async serve(request: FastifyRequest, response: ServerResponse, begin: Begin): Promise<void> {
    const { redis, keyspace } = this.#options;
    const name = request.headers[header];
    if (typeof name !== "string" || name.length > headerLengthMax || !/^[\x20-\x7e]+$/.test(name)) throw new Refused(invalidHeader);
    const key = keyspace.idempotency(request.caller.id, createHash("sha256").update(name).digest("hex"));
    const fingerprint = fingerprintOf(request);
    const claim = JSON.stringify({ fingerprint, claimedBy: `${this.#self} ${request.id}` });
    const own = requestIdHeadersOf(request);
    const until = performance.now() + elsewhereMsMax;
    while (!response.closed) {
      const running = this.#running.get(key);
      if (running !== undefined) {
        if (running.fingerprint !== fingerprint) throw new Refused(otherRequest);
        if (!running.response.join(response, own)) throw new Refused(stillRunning);
        return;
      }
      if ((await redis.set(key, claim, "PX", claimMs, "NX").catch(failed)) === "OK") {
        this.#begin(key, fingerprint, claim, response, begin);
        return;
      }
      const value = await redis.getBuffer(key).catch(failed);
      if (value !== null) {
        const { entry, body } = entryOf(value);
        if (entry.fingerprint !== fingerprint) throw new Refused(otherRequest);
        if (entry.status !== undefined) {
          response.writeHead(entry.status, headersOf({ headers: entry.headers ?? {} }, own));
          response.end(body);
          return;
        }
        if (performance.now() > until) throw new Refused(stillRunning);
        if (this.#running.get(key) === undefined) await setTimeout(lookMs);
      }
    }
  }

  #renew(running: Running): void {
    const { key, claim } = running;
    running.renewedAt = performance.now();
    runScript(this.#options.redis, placeScript, [key], [claim, claim, claimMs]).catch(() => undefined);
  }

  #begin(key: string, fingerprint: string, claim: string, response: ServerResponse, begin: Begin): void {
    const { redis, budget, windowMs } = this.#options;
    const shared = new SharedResponse(response, budget);
    const running: Running = { key, fingerprint, claim, response: shared, renewedAt: performance.now() };
    this.#running.set(key, running);
    const forget = () => {
      if (this.#running.get(key) === running) this.#running.delete(key);
    };
    const settle = (stored: Buffer | string) =>
      runScript(redis, placeScript, [key], [claim, stored, windowMs])
        .catch(() => undefined)
        .finally(() => {
          forget();
          shared.forget();
        });
    try {
      begin(shared, (outcome) => {
        const answer = outcome === "complete" ? shared.kept : undefined;
        if (answer === undefined || answer.status >= 300) {
          forget();
          void settle("");
        } else {
          const entry: Entry = { fingerprint, status: answer.status, headers: answer.headers };
          void settle(Buffer.concat([Buffer.from(`${JSON.stringify(entry)}\n`), answer.body]));
        }
      });
    } catch (error) {
      forget();
      void settle("");
      throw error;
    }
  }
}

function failed(): never {
  throw new Refused(unavailable);
}

/** Of what is asked and where; a form's boundary is another each time it is sent. */
function fingerprintOf({ url, bytes, headers }: FastifyRequest): string {
  const hash = createHash("sha256").update(`${url}\n`);
  const boundary = /boundary="?([^";]+)/.exec(headers["content-type"] ?? "")?.[1];
  return (boundary === undefined ? hash.update(bytes) : hash.update(bytes.toString("latin1").replaceAll(boundary, ""))).digest("hex");
}

function entryOf(value: Buffer): { entry: Entry; body: Buffer } {
  const end = value.indexOf("\n");
  const line = end === -1 ? value : value.subarray(0, end);
  return { entry: JSON.parse(line.toString("utf8")) as Entry, body: end === -1 ? Buffer.alloc(0) : value.subarray(end + 1) };
}
