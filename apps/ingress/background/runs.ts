/**
 * Generations that go on without their callers, each leased to the ingress that runs it. The lease
 * of a lost ingress expires, and another ingress takes the generation over. Until a generation is
 * over, Redis holds its request, like that of a waiting job, and the keys for what it stores.
 */
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { responseEndsMax } from "#service/response-ends.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { detachedLeaseMs, takeOversAtOnceMax } from "../common/bounds.ts";
import type { Labels } from "../common/labels.ts";

/** The request of a generation, as another ingress needs it. */
export interface Run {
  /** The id of the log or the response that it writes. */
  id: string;
  keyId: string;
  /** The account that is told of the end; absent for a key without one. */
  account?: string | undefined;
  /** The hash of the API key. */
  keyHash: string;
  requestId: string;
  /** When the request was received: epoch milliseconds. */
  receivedAt: number;
  /** For its usage record; absent in one of an earlier version. */
  labels?: Labels;
  priceVersion?: string;
  /**
   * The name of its endpoint, and the model and the framing that were asked for. A stream has a
   * log.
   */
  endpoint: string;
  model: string;
  framing: "whole" | "sse";
  url: string;
  headers: Record<string, string>;
  /** Whether it is a response of OpenAI's Responses with `background: true`. */
  isBackground: boolean;
  /** The keys of what it stores, by name. Secret. */
  keys: Record<string, string>;
}

const common = `${redisClock}
local runs, prefix = KEYS[1], KEYS[2]`;

/** ARGV: member, ingress, the run as JSON, its body, the lease in ms. */
const beginScript = scriptOf(
  `${common}
local name = prefix .. ARGV[1]
redis.call("HSET", name, "ingress", ARGV[2], "run", ARGV[3], "body", ARGV[4], "taken", 0)
redis.call("PEXPIRE", name, 86400000)
redis.call("ZADD", runs, nowMs + ARGV[5], ARGV[1])`,
  "refuse",
);

/** ARGV: ingress, the lease in ms, members. Returns for each "kept", "cancelled" or "lost". */
const renewScript = scriptOf(
  `${common}
local states = {}
for place = 3, #ARGV do
  local found = redis.call("HMGET", prefix .. ARGV[place], "ingress", "cancelled")
  local state = "kept"
  -- A Redis that lost its data has no other ingress for it.
  if found[1] and found[1] ~= ARGV[1] then state = "lost" elseif found[2] then state = "cancelled" end
  if state ~= "lost" then redis.call("ZADD", runs, nowMs + ARGV[2], ARGV[place]) end
  table.insert(states, state)
end
return states`,
  "run",
);

/** ARGV: ingress, members. */
const releaseScript = scriptOf(
  `${common}
for place = 2, #ARGV do
  if redis.call("HGET", prefix .. ARGV[place], "ingress") == ARGV[1] then redis.call("ZADD", runs, 0, ARGV[place]) end
end`,
  "run",
);

/**
 * ARGV: ingress, the lease in ms, how many. Returns member, run, times taken, and whether it is
 * cancelled, of each.
 */
const takeScript = scriptOf(
  `${common}
local taken = {}
for _, member in ipairs(redis.call("ZRANGEBYSCORE", runs, "-inf", nowMs, "LIMIT", 0, ARGV[3])) do
  local name = prefix .. member
  local run = redis.call("HGET", name, "run")
  if not run then redis.call("ZREM", runs, member)
  else
    redis.call("HSET", name, "ingress", ARGV[1])
    redis.call("ZADD", runs, nowMs + ARGV[2], member)
    table.insert(taken, member)
    table.insert(taken, run)
    table.insert(taken, redis.call("HINCRBY", name, "taken", 1))
    table.insert(taken, redis.call("HEXISTS", name, "cancelled"))
  end
end
return taken`,
  "run",
);

/**
 * ARGV: member, ingress; and for an end that is announced: account, id, status, ends that wait at
 * most.
 */
const endScript = scriptOf(
  `${common}
local name = prefix .. ARGV[1]
if redis.call("HGET", name, "ingress") ~= ARGV[2] then return end
if ARGV[3] then
  local ended = {"MAXLEN", "~", ARGV[6], "*", "account", ARGV[3], "id", ARGV[4], "status", ARGV[5]}
  redis.call("XADD", KEYS[3], unpack(ended))
end
redis.call("DEL", name)
redis.call("ZREM", runs, ARGV[1])`,
  "run",
);

const cancelScript = scriptOf(
  `${common}
local name = prefix .. ARGV[1]
if redis.call("EXISTS", name) == 1 then redis.call("HSET", name, "cancelled", 1) end`,
  "run",
);

export interface TakenRun {
  run: Run;
  /** How often ingresses have taken it over. */
  times: number;
  isCancelled: boolean;
}

type Held = Pick<Run, "keyId" | "id">;

const memberOf = ({ keyId, id }: Held): string => `${keyId} ${id}`;

export class Runs {
  readonly #redis: Redis;
  readonly #names: readonly string[];
  readonly #keyspace: Keyspace;
  /** The id of this ingress. */
  readonly #self: string;

  constructor(redis: Redis, keyspace: Keyspace, self: string) {
    this.#redis = redis;
    this.#keyspace = keyspace;
    this.#names = [keyspace.runs, keyspace.run(""), keyspace.runsEnded];
    this.#self = self;
  }

  /** Rejects when Redis does not answer. */
  async begin(run: Run, body: Buffer): Promise<void> {
    const values = [memberOf(run), this.#self, JSON.stringify(run), body, detachedLeaseMs];
    await runScript(this.#redis, beginScript, this.#names, values);
  }

  /** Renews leases; returns the state of each, in order. Rejects when Redis does not answer. */
  async renew(runs: readonly Held[]): Promise<("kept" | "cancelled" | "lost")[]> {
    const values = [this.#self, detachedLeaseMs, ...runs.map(memberOf)];
    return (await runScript(this.#redis, renewScript, this.#names, values)) as ("kept" | "cancelled" | "lost")[];
  }

  /** Ends leases, so that another ingress takes the generations over at once. Never rejects. */
  async release(runs: readonly Held[]): Promise<void> {
    const values = [this.#self, ...runs.map(memberOf)];
    await runScript(this.#redis, releaseScript, this.#names, values).catch(() => undefined);
  }

  /** Takes over generations whose leases have expired. Rejects when Redis does not answer. */
  async take(): Promise<TakenRun[]> {
    // Usually there is none, and one plain command says so.
    if ((await this.#redis.exists(this.#keyspace.runs)) === 0) return [];
    const values = [this.#self, detachedLeaseMs, takeOversAtOnceMax];
    const fields = (await runScript(this.#redis, takeScript, this.#names, values)) as (string | number)[];
    return Array.from({ length: fields.length / 4 }, (_, index) => ({
      run: JSON.parse(String(fields[4 * index + 1])) as Run,
      times: Number(fields[4 * index + 2]),
      isCancelled: fields[4 * index + 3] === 1,
    }));
  }

  /** Is the generation not over? Rejects when Redis does not answer. */
  async has(run: Held): Promise<boolean> {
    return (await this.#redis.exists(this.#keyspace.run(memberOf(run)))) === 1;
  }

  /**
   * The body of a generation's request; undefined if it is over. Rejects when Redis does not
   * answer.
   */
  async bodyOf(run: Held): Promise<Buffer | undefined> {
    return (await this.#redis.hgetBuffer(this.#keyspace.run(memberOf(run)), "body")) ?? undefined;
  }

  /**
   * Announces the end of a background response, unless it was deleted: its account may have
   * webhooks. Never rejects.
   */
  async end(run: Run, status: string): Promise<void> {
    const { id, account, isBackground } = run;
    const isAnnounced = isBackground && account !== undefined && status !== "deleted";
    const end = isAnnounced ? [account, id, status, responseEndsMax] : [];
    await runScript(this.#redis, endScript, this.#names, [memberOf(run), this.#self, ...end]).catch(() => undefined);
  }

  /** Asks the ingress that runs it to stop. Rejects when Redis does not answer. */
  async cancel(run: Held): Promise<void> {
    await runScript(this.#redis, cancelScript, this.#names, [memberOf(run)]);
  }
}
