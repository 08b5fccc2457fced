/**
 * `Idempotency-Key`: a retry with the same key and body joins the running generation or receives the stored answer
 * (https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/). An answer is not stored when it failed or when there is no
 * space for it; its Idempotency-Key is then free again. Stored bytes are bounded per API key and in all, and nothing is stored while Redis
 * uses more than half of its memory.
 */
import { createHash, randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { usedMemoryShare } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import type { Capacity } from "../admission/capacity.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import { requestIdHeadersOf } from "../http/endpoints.ts";
import { overloadOf, unavailable } from "../http/failures.ts";
import { Refused } from "../http/refused.ts";
import { headersOf, type KeptAnswer, SharedResponse } from "./shared-response.ts";

/** How long the claim of a running generation outlives its ingress, and how often it is renewed. */
const claimMs = 15_000;
const renewMs = 5_000;
/** How long a request waits for an answer that runs at another ingress, and how often it checks. */
const elsewhereMsMax = 30_000;
const checkMs = 200;
const headerLengthMax = 255;
/** Answers are stored while Redis uses no more than this part of its memory; the number may be this old. */
const memoryShareMax = 0.5;
const memoryAgeMsMax = 1_000;

const header = "idempotency-key";

/**
 * KEYS[1] the entry. ARGV: the claim's value; the new value, which is the claim or empty to delete it; its life in ms.
 * Returns 1 when the value was written, 0 when the entry is another request's. Atomic: only our claim is replaced, or an entry that Redis lost.
 */
const placeScript = scriptOf(
  `
local found = redis.call("GET", KEYS[1])
if found and found ~= ARGV[1] then return 0 end
if ARGV[2] == "" then redis.call("DEL", KEYS[1]) else redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3]) end
return 1`,
  "run",
);

/**
 * KEYS[1] the entry; KEYS[2] the stored answers (sorted set); KEYS[3] their bytes (hash). ARGV: the claim's value; the answer; its life in ms; its bytes; the id of its caller's key; the
 * hash of its Idempotency-Key; the bytes that this key's callers may store, and those of all.
 * Returns 1 when the answer is stored; else 0, and its claim is gone. Atomic: answers that lapsed are taken out of the count first, a thousand at most.
 */
const storeScript = scriptOf(
  `${redisClock}
local found = redis.call("GET", KEYS[1])
if found and found ~= ARGV[1] then return 0 end
local function count(keyId, bytes)
  for _, field in ipairs({ keyId, "total" }) do
    if redis.call("HINCRBY", KEYS[3], field, bytes) <= 0 then redis.call("HDEL", KEYS[3], field) end
  end
end
local lapsed = redis.call("ZRANGEBYSCORE", KEYS[2], "-inf", nowMs, "LIMIT", 0, 1000)
for _, member in ipairs(lapsed) do
  local bytes, keyId = string.match(member, "^(%d+) (%S+) ")
  count(keyId, -bytes)
end
if #lapsed > 0 then redis.call("ZREM", KEYS[2], unpack(lapsed)) end
local bytes = tonumber(ARGV[4])
local stored = redis.call("HMGET", KEYS[3], ARGV[5], "total")
if (tonumber(stored[1]) or 0) + bytes > tonumber(ARGV[7]) or (tonumber(stored[2]) or 0) + bytes > tonumber(ARGV[8]) then
  redis.call("DEL", KEYS[1])
  return 0
end
redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3])
if redis.call("ZADD", KEYS[2], nowMs + ARGV[3], ARGV[4] .. " " .. ARGV[5] .. " " .. ARGV[6]) == 1 then count(ARGV[5], bytes) end
redis.call("PEXPIRE", KEYS[2], ARGV[3])
redis.call("PEXPIRE", KEYS[3], ARGV[3])
return 1`,
  "refuse",
);

const invalidHeader: Failure = {
  code: "invalid_request",
  message: `The header ${header} must be 1 to ${headerLengthMax} printable ASCII characters.`,
  param: header,
};
const otherRequest: Failure = {
  code: "unprocessable",
  message: `This ${header} was used with another request; use a new one for each.`,
  param: header,
};
const stillRunning: Failure = {
  code: "unavailable",
  message: `The request with this ${header} is still running; send it again to get its answer.`,
  retryAfterSeconds: 2,
};

/** The entry of an Idempotency-Key in Redis: its Redis key, the id of the caller's API key, the hash of the Idempotency-Key. */
interface EntryKey {
  key: string;
  keyId: string;
  hash: string;
}

interface Running extends EntryKey {
  fingerprint: string;
  claim: string;
  response: SharedResponse;
  renewedAt: number;
}

/** The value of an entry: one line of this as JSON, followed by the answer's bytes once the answer is complete. */
interface Entry {
  fingerprint: string;
  status?: number;
  headers?: Record<string, string>;
}

export interface IdempotencyOptions {
  redis: Redis;
  keyspace: Keyspace;
  /** The slots of generations: a request that waits for another's answer takes one as well. */
  slots: Capacity;
  /** Bytes of request bodies, and of answers that are shared. */
  bodyBytes: Capacity;
  clock: Clock;
  events: EventSink<IngressEvents>;
  /** How long an answer is stored. */
  windowMs: number;
  /** Bytes stored in Redis at most: for the callers of one key, and for all. */
  keyBytesMax: number;
  bytesMax: number;
}

/** Begins the generation with this response, or throws Refused. Calls `onEnd` when it is over. */
type Begin = (response: AnswerResponse, onEnd: (outcome: string) => void) => void;
/** Admits a request that gets another request's answer: resolves to headers for its caller, or rejects with Refused. */
type Replay = () => Promise<Record<string, string>>;

export class Idempotency {
  readonly #options: IdempotencyOptions;
  readonly #running = new LiveMap<string, Running>();
  readonly #self = randomUUID();
  #memory: { readAt: number; hasSpace: Promise<boolean> } | undefined;

  constructor(options: IdempotencyOptions) {
    this.#options = options;
    // Redis may have come back empty.
    options.redis.on("ready", () => {
      for (const running of this.#running.values()) this.#renew(running);
    });
  }

  /** Has the request an Idempotency-Key? */
  concerns({ headers }: FastifyRequest): boolean {
    return headers[header] !== undefined;
  }

  /** Renews the claims of running generations. Call it about once a second. */
  tick(now: number): void {
    for (const running of this.#running.values()) if (now - running.renewedAt >= renewMs) this.#renew(running);
  }

  /** Takes over the response, or throws Refused. */
  async serve(request: FastifyRequest, response: ServerResponse, begin: Begin, replay: Replay): Promise<void> {
    const { redis, keyspace, slots, clock, events } = this.#options;
    const name = request.headers[header];
    if (typeof name !== "string" || name.length > headerLengthMax || !/^[\x20-\x7e]+$/.test(name))
      throw new Refused(invalidHeader);
    const hash = createHash("sha256").update(name).digest("hex");
    const entryKey: EntryKey = { key: keyspace.idempotency(request.caller.id, hash), keyId: request.caller.id, hash };
    const { key } = entryKey;
    const fingerprint = fingerprintOf(request);
    const claim = JSON.stringify({ fingerprint, claimedBy: `${this.#self} ${request.id}` });
    let own: Record<string, string> | undefined;
    /** Counts the request against its caller's limits, once. Returns whether it took time, in which the entry may have changed. */
    const counted = async () => {
      if (own !== undefined) return false;
      own = { ...requestIdHeadersOf(request), ...(await replay()) };
      return true;
    };
    if (response.closed) return;
    const slot = slots.claim(request.caller.id);
    const shortage = slot.hold(1);
    if (shortage !== undefined) throw new Refused(overloadOf(events, "generations", shortage, request.caller.id));
    response.once("close", () => slot.end());
    const until = clock.now() + elsewhereMsMax;
    while (!response.closed) {
      const running = this.#running.get(key);
      if (running !== undefined) {
        if (running.fingerprint !== fingerprint) throw new Refused(otherRequest);
        if (await counted()) continue;
        if (!running.response.join(response, own as Record<string, string>)) throw new Refused(stillRunning);
        return;
      }
      if ((await redis.set(key, claim, "PX", claimMs, "NX").catch(failed)) === "OK") {
        slot.end();
        this.#begin(entryKey, fingerprint, claim, response, begin);
        return;
      }
      const value = await redis.getBuffer(key).catch(failed);
      if (value !== null) {
        const { entry, body } = entryOf(value);
        if (entry.fingerprint !== fingerprint) throw new Refused(otherRequest);
        if (entry.status !== undefined) {
          await counted();
          response.writeHead(entry.status, headersOf({ headers: entry.headers ?? {} }, own as Record<string, string>));
          response.end(body);
          return;
        }
        if (clock.now() > until) throw new Refused(stillRunning);
        if (this.#running.get(key) === undefined) await setTimeout(checkMs);
      }
    }
  }

  #renew(running: Running): void {
    const { key, claim } = running;
    running.renewedAt = this.#options.clock.now();
    runScript(this.#options.redis, placeScript, [key], [claim, claim, claimMs]).catch(() => undefined);
  }

  /** Frees the key, unless the entry is another request's. */
  #release({ key, claim }: Running): Promise<unknown> {
    return runScript(this.#options.redis, placeScript, [key], [claim, "", 0]).catch(() => undefined);
  }

  async #store(running: Running, answer: KeptAnswer): Promise<unknown> {
    const { redis, keyspace, windowMs, keyBytesMax, bytesMax } = this.#options;
    const { key, keyId, hash, fingerprint, claim } = running;
    const entry: Entry = { fingerprint, status: answer.status, headers: answer.headers };
    const stored = Buffer.concat([Buffer.from(`${JSON.stringify(entry)}\n`), answer.body]);
    if (!(await this.#hasSpace())) return this.#release(running);
    const keys = [key, keyspace.idempotencyStored, keyspace.idempotencyBytes];
    const values = [claim, stored, windowMs, stored.length, keyId, hash, keyBytesMax, bytesMax];
    return runScript(redis, storeScript, keys, values).catch(() => this.#release(running));
  }

  /** Has Redis free memory, as of at most a second ago? */
  #hasSpace(): Promise<boolean> {
    const now = this.#options.clock.now();
    if (this.#memory === undefined || now - this.#memory.readAt > memoryAgeMsMax) {
      const hasSpace = usedMemoryShare(this.#options.redis).then(
        (share) => share <= memoryShareMax,
        () => false,
      );
      this.#memory = { readAt: now, hasSpace };
    }
    return this.#memory.hasSpace;
  }

  #begin(entryKey: EntryKey, fingerprint: string, claim: string, response: ServerResponse, begin: Begin): void {
    const shared = new SharedResponse(response, this.#options.bodyBytes.claim(entryKey.keyId));
    const running: Running = {
      ...entryKey,
      fingerprint,
      claim,
      response: shared,
      renewedAt: this.#options.clock.now(),
    };
    this.#running.set(entryKey.key, running);
    const forget = () => {
      if (this.#running.get(entryKey.key) === running) this.#running.delete(entryKey.key);
    };
    const free = () => {
      forget();
      void this.#release(running).finally(() => shared.forget());
    };
    try {
      begin(shared, (outcome) => {
        const answer = outcome === "complete" ? shared.kept : undefined;
        if (answer === undefined || answer.status >= 300) {
          free();
          return;
        }
        void this.#store(running, answer).finally(() => {
          forget();
          shared.forget();
        });
      });
    } catch (error) {
      free();
      throw error;
    }
  }
}

function failed(): never {
  throw new Refused(unavailable);
}

/** A hash of the path and the body. A form's boundary is left out, for it differs each time the form is sent. */
function fingerprintOf({ url, bytes, headers }: FastifyRequest): string {
  const hash = createHash("sha256").update(`${url}\n`);
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

function entryOf(value: Buffer): { entry: Entry; body: Buffer } {
  const end = value.indexOf("\n");
  const line = end === -1 ? value : value.subarray(0, end);
  return {
    entry: JSON.parse(line.toString("utf8")) as Entry,
    body: end === -1 ? Buffer.alloc(0) : value.subarray(end + 1),
  };
}
