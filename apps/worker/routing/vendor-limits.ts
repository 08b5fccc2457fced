/**
 * The rate limits that vendors state in their responses. A limit belongs to a target with one
 * credential. All workers share what is left of it in Redis: each takes it in blocks, so that most
 * calls ask Redis for nothing, and while nothing is left no worker asks or calls at all.
 */
import { hash, randomUUID } from "node:crypto";
import type { Usage } from "#dialects/usage.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { setNewest } from "#service/newest.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { type Header, type RateLimit, rateLimitsIn } from "#wire/rate-limit-headers.ts";
import {
  assumedAskMs,
  blockMs,
  blockShare,
  firstOutputTokens,
  limitedTargetsMax,
  limitLifeMs,
  meanWeight,
  scarceShare,
} from "../bounds.ts";

/** Estimates of what a call needs of its vendor's limits. */
export interface CallNeed {
  inputTokens: number;
  /** The most tokens that the answer may have, where the vendor counts these. */
  outputTokensMax: number | undefined;
}

type CountedTokens = Pick<Usage, "inputTokens" | "cachedInputTokens" | "outputTokens">;

export interface VendorCall {
  /** The response's headers arrived. */
  answered(headers: Readonly<Record<string, Header>>): void;
  /** The call is over. Without a usage, nothing is known of its tokens. */
  over(usage: CountedTokens | undefined): void;
  /** The call is not made. */
  giveBack(): void;
}

type Counts = RateLimit["counts"];
type Needs = Record<Counts, number>;

/** As workers tell each other. */
type LimitTerms = Pick<RateLimit, "name" | "counts" | "periodMs" | "isRefilled" | "countsCachedTokens"> & {
  max: number;
  /** All workers had this left. */
  remaining: number;
  /** The end of a window, from then on; undefined for a limit that time refills. */
  windowMs?: number;
};

interface Bucket extends LimitTerms {
  /** When `remaining` became known. */
  remainingAt: number;
  /**
   * This worker's block, which it loses at `blockUntil`. Below 0: calls that are not counted yet.
   */
  block: number;
  blockUntil: number;
  /** Calls that need as much as this have to wait. */
  refusedNeed: number;
  refusedUntil: number;
  windowUntil: number;
}

interface LimitedTarget {
  buckets: Map<string, Bucket>;
  /** Ends when Redis has answered. */
  taking: Promise<void> | undefined;
}

/** Means of a target's calls. */
interface TokenMeans {
  /** Counted tokens of the input, as a multiple of the estimate. */
  inputFactor: number;
  outputTokens: number;
}

/**
 * Restores what time brings back. `left` is as of `at`, in epoch ms. When a new window ends is
 * `assumed` until a response says it.
 */
const refill = `
local function refill(bucket)
  if bucket.refills then
    bucket.left = math.min(bucket.max, bucket.left + math.max(0, nowMs - bucket.at) * bucket.max / bucket.period)
  elseif nowMs >= bucket.reset then
    bucket.left = bucket.max
    bucket.reset = nowMs + bucket.period
    bucket.assumed = true
  end
  bucket.at = nowMs
end
`;

/**
 * KEYS[1] the limits of a target: a hash from a limit's name to JSON. ARGV ms after which a worker
 * asks again while an end is assumed, the part of a limit that is a block, then three of each
 * limit: its name, what a call needs, what is left of the worker's block. Returns two of each
 * limit: the block and what all have left; or -1 and the ms until there is enough. Empty where a
 * limit is not known. All limits give, or none.
 */
const takeScript = scriptOf(`${redisClock}${refill}
local buckets, waits, answer = {}, false, {}
for index = 3, #ARGV, 3 do
  local text = redis.call("HGET", KEYS[1], ARGV[index])
  if not text then return {} end
  local bucket = cjson.decode(text)
  bucket.left = math.min(bucket.max, bucket.left + ARGV[index + 2])
  refill(bucket)
  bucket.need = math.min(ARGV[index + 1], bucket.max)
  bucket.wait = 0
  if bucket.left < bucket.need then
    waits = true
    bucket.wait = bucket.refills and (bucket.need - bucket.left) / bucket.max * bucket.period or bucket.reset - nowMs
    if bucket.assumed then bucket.wait = math.min(bucket.wait, ARGV[1]) end
    bucket.wait = math.max(1, math.ceil(bucket.wait))
  end
  buckets[#buckets + 1] = bucket
end
for index, bucket in ipairs(buckets) do
  local block = 0
  if not waits then block = math.max(bucket.need, math.floor(bucket.left / ARGV[2])) end
  bucket.left = bucket.left - block
  answer[#answer + 1] = bucket.wait > 0 and -1 or block
  answer[#answer + 1] = bucket.wait > 0 and bucket.wait or math.floor(bucket.left)
  bucket.need, bucket.wait = nil, nil
  redis.call("HSET", KEYS[1], ARGV[index * 3], cjson.encode(bucket))
end
return answer
`);

/**
 * KEYS[1] as above. ARGV how long the limits are kept in ms, then six of each limit: its name, its
 * maximum, what is left, ms until its reset (-1: unknown), its period in ms, 1 if time refills it.
 * Returns two of each limit: what all have left, and by how much that is less than expected. What
 * workers have taken is not given back: the response may have left the vendor before. A limit that
 * the vendor raises has as much more left.
 */
const reportScript = scriptOf(
  `${redisClock}${refill}
local answer = {}
for index = 2, #ARGV, 6 do
  local max, left, resetMs = tonumber(ARGV[index + 1]), tonumber(ARGV[index + 2]), tonumber(ARGV[index + 3])
  local text = redis.call("HGET", KEYS[1], ARGV[index])
  local bucket = text and cjson.decode(text) or {left = left, at = nowMs, reset = 0, max = max}
  bucket.left = bucket.left + math.max(0, max - bucket.max)
  bucket.max, bucket.period, bucket.refills = max, tonumber(ARGV[index + 4]), ARGV[index + 5] == "1"
  if text then refill(bucket) end
  local less = math.floor(math.max(0, bucket.left - left))
  bucket.left = math.min(bucket.left, left)
  answer[#answer + 1] = math.floor(bucket.left)
  answer[#answer + 1] = less
  if resetMs >= 0 then bucket.reset = nowMs + resetMs
  elseif bucket.reset <= nowMs then bucket.reset = nowMs + bucket.period end
  bucket.assumed = nil
  redis.call("HSET", KEYS[1], ARGV[index], cjson.encode(bucket))
end
redis.call("PEXPIRE", KEYS[1], ARGV[1])
return answer
`,
  "refuse",
);

/** For operators. */
export interface ScarcestLimit {
  /** The target and the name of the credential, as `idOf` joins them. */
  target: string;
  /** As the vendor names it. */
  limit: string;
  max: number;
  remaining: number;
  /** Until the vendor accepts another call; 0 if it does so now. */
  waitMs: number;
}

export interface VendorLimitsDeps {
  redis: Redis;
  keyspace: Pick<Keyspace, "vendorLimits">;
  clock: Clock;
  /** Tells all workers, this one too, which limits a target has. */
  announce(text: string): void;
}

export class VendorLimits {
  readonly #deps: VendorLimitsDeps;
  readonly #self = randomUUID();
  /** By target and credential, as their vendors answered last. The oldest is the first. */
  readonly #targets = new Map<string, LimitedTarget>();
  readonly #means = new Map<string, TokenMeans>();
  /** The needs of calls whose responses have not begun, by target and credential. */
  readonly #unanswered = new Map<string, Needs>();
  /** Calls of targets whose vendors state no limits are not counted, and share one of these. */
  readonly #uncounted = new Map<string, VendorCall>();

  constructor(deps: VendorLimitsDeps) {
    this.#deps = deps;
  }

  /** Whether the vendor stated limits of this target. */
  has(id: string): boolean {
    return this.#targets.has(id);
  }

  /**
   * A call, or the ms until its vendor accepts one; a promise only where Redis must be asked.
   * `host` is the vendor's.
   */
  take(id: string, host: string, need: CallNeed): VendorCall | number | Promise<VendorCall | number> {
    const target = this.#targets.get(id);
    if (target === undefined) return this.#takeUnlimited(id, host, need);
    const needs = this.#needsOf(id, need);
    const waitMs = this.#waitMs(target, needs);
    if (waitMs > 0) return waitMs;
    if (this.#spend(target, needs)) return this.#call(id, host, need, needs);
    return this.#takeBlock(id, host, need, needs);
  }

  /** A call at once, if the vendor stated no limits of this target; undefined if it did. */
  takeUnlimited(id: string, host: string, need: CallNeed): VendorCall | undefined {
    return this.#targets.has(id) ? undefined : this.#takeUnlimited(id, host, need);
  }

  #takeUnlimited(id: string, host: string, need: CallNeed): VendorCall {
    return this.#uncounted.get(id) ?? this.#call(id, host, need, this.#needsOf(id, need));
  }

  /** A worker announced something. */
  hear(text: string): void {
    const [worker, id, terms] = JSON.parse(text) as [string, string, LimitTerms[]];
    if (worker !== this.#self) this.#apply(id, terms);
  }

  /** Blocks that were taken before are gone. */
  #apply(id: string, terms: readonly LimitTerms[]): void {
    const present = this.#targets.get(id);
    const unanswered = this.#unanswered.get(id);
    const now = this.#deps.clock.now();
    const buckets = terms.map((one): [string, Bucket] => {
      const uncounted = present === undefined ? (unanswered?.[one.counts] ?? 0) : 0;
      const windowUntil = now + (one.windowMs ?? Number.POSITIVE_INFINITY);
      const own = { block: -uncounted, blockUntil: 0, refusedNeed: 0, refusedUntil: 0, windowUntil, remainingAt: now };
      return [one.name, { ...one, ...own }];
    });
    const target = { buckets: new Map(buckets), taking: undefined };
    setNewest(this.#targets, id, target, limitedTargetsMax);
    this.#uncounted.delete(id);
    // Others must not take what these calls use.
    if (present === undefined && unanswered !== undefined) void this.#fill(id, target, noNeeds);
  }

  /** The limit of which the smallest part is left, for each target and credential. */
  scarcest(): ScarcestLimit[] {
    const now = this.#deps.clock.now();
    return [...this.#targets].map(([id, target]) => {
      const limits = [...target.buckets.values()].map((bucket) => ({
        target: id,
        limit: bucket.name,
        max: bucket.max,
        remaining: remainingOf(bucket, now),
        waitMs: this.#waitMs(target, largestNeeds),
      }));
      return limits.reduce((least, one) => (one.remaining / one.max < least.remaining / least.max ? one : least));
    });
  }

  async #takeBlock(id: string, host: string, need: CallNeed, needs: Needs): Promise<VendorCall | number> {
    for (;;) {
      const target = this.#targets.get(id);
      if (target === undefined) return this.#call(id, host, need, needs);
      target.taking ??= this.#fill(id, target, needs).finally(() => {
        target.taking = undefined;
      });
      await target.taking;
      const waitMs = this.#waitMs(target, needs);
      if (waitMs > 0) return waitMs;
      if (this.#spend(target, needs)) return this.#call(id, host, need, needs);
    }
  }

  /** Takes blocks for a call. Without Redis the call may be made, and nothing is counted. */
  async #fill(id: string, target: LimitedTarget, needs: Needs): Promise<void> {
    const { redis, keyspace, clock } = this.#deps;
    const buckets = [...target.buckets.values()];
    const startedAt = clock.now();
    const values = buckets.flatMap((bucket) => {
      const { name, counts, block, blockUntil } = bucket;
      const unused = blockUntil > startedAt ? Math.max(0, block) : 0;
      bucket.block = Math.min(0, block);
      return [name, needs[counts] - bucket.block, unused];
    });
    try {
      const taken = (await runScript(
        redis,
        takeScript,
        [keyspace.vendorLimits(hashOf(id))],
        [assumedAskMs, blockShare, ...values],
      )) as number[];
      const now = clock.now();
      if (taken.length === 0 && this.#targets.get(id) === target) this.#targets.delete(id);
      for (const [index, bucket] of buckets.entries()) {
        const [block = 0, value = 0] = taken.slice(index * 2);
        if (block < 0) {
          bucket.refusedNeed = needs[bucket.counts];
          bucket.refusedUntil = now + value;
          continue;
        }
        bucket.block += block;
        bucket.blockUntil = now + blockMs;
        bucket.remaining = value;
        bucket.remainingAt = now;
      }
    } catch {
      for (const bucket of buckets) {
        bucket.block += needs[bucket.counts];
        bucket.blockUntil = clock.now() + blockMs;
      }
    }
  }

  #waitMs({ buckets }: LimitedTarget, needs: Needs): number {
    const now = this.#deps.clock.now();
    let waitMs = 0;
    for (const { counts, refusedNeed, refusedUntil } of buckets.values())
      if (refusedUntil > now && needs[counts] >= refusedNeed) waitMs = Math.max(waitMs, refusedUntil - now);
    return waitMs;
  }

  /** From this worker's blocks, if all of them have enough. */
  #spend({ buckets }: LimitedTarget, needs: Needs): boolean {
    const now = this.#deps.clock.now();
    for (const { counts, block, blockUntil, max } of buckets.values())
      if (blockUntil <= now || block < Math.min(needs[counts], max)) return false;
    for (const bucket of buckets.values()) bucket.block -= Math.min(needs[bucket.counts], bucket.max);
    return true;
  }

  #needsOf(id: string, { inputTokens, outputTokensMax }: CallNeed): Needs {
    const { inputFactor, outputTokens: mean } = this.#meansOf(id);
    const input = Math.ceil(inputTokens * inputFactor);
    const output = outputTokensMax ?? Math.ceil(mean);
    return { requests: 1, tokens: input + output, inputTokens: input, outputTokens: output };
  }

  #meansOf(id: string): TokenMeans {
    return this.#means.get(id) ?? { inputFactor: 1, outputTokens: firstOutputTokens };
  }

  #call(id: string, host: string, need: CallNeed, needs: Needs): VendorCall {
    this.#count(id, needs, 1);
    let isAnswered = false;
    const answer = () => {
      if (!isAnswered) this.#count(id, needs, -1);
      isAnswered = true;
    };
    return {
      answered: (headers) => {
        answer();
        this.#learn(id, headers, host);
        if (!this.#targets.has(id)) setNewest(this.#uncounted, id, this.#uncountedCall(id, host), limitedTargetsMax);
      },
      over: (usage) => {
        answer();
        if (usage !== undefined && this.#targets.has(id)) this.#settle(id, usage, need, needs);
      },
      giveBack: () => {
        answer();
        for (const bucket of this.#targets.get(id)?.buckets.values() ?? []) bucket.block += needs[bucket.counts];
      },
    };
  }

  #uncountedCall(id: string, host: string): VendorCall {
    return {
      answered: (headers) => this.#learn(id, headers, host),
      over: () => undefined,
      giveBack: () => undefined,
    };
  }

  #count(id: string, needs: Needs, factor: number): void {
    const sums = this.#unanswered.get(id) ?? { ...noNeeds };
    for (const counts of countKinds) sums[counts] += factor * needs[counts];
    if (sums.requests > 0) this.#unanswered.set(id, sums);
    else this.#unanswered.delete(id);
  }

  /** A response says how much is left. */
  #learn(id: string, headers: Readonly<Record<string, Header>>, host: string): void {
    const limits = rateLimitsIn(headers, this.#deps.clock.epoch(), host);
    if (limits.length === 0) return;
    const buckets = this.#targets.get(id)?.buckets;
    const terms = limits.map(({ max, resetMs, ...limit }): LimitTerms => {
      const knownMax = buckets?.get(limit.name)?.max ?? 0;
      const window = limit.isRefilled ? {} : { windowMs: resetMs ?? limit.periodMs };
      return { ...limit, max: Math.max(limit.remaining, max ?? knownMax), ...window };
    });
    const now = this.#deps.clock.now();
    const isNew = terms.some(({ name, max }) => {
      const bucket = buckets?.get(name);
      return bucket === undefined || bucket.max !== max || bucket.windowUntil <= now;
    });
    const isLess = terms.some(({ name, remaining }) => remaining < (buckets?.get(name)?.remaining ?? 0));
    if (isNew || isLess) void this.#report(id, limits, terms, isNew);
  }

  /** Never rejects. */
  async #report(id: string, limits: readonly RateLimit[], terms: readonly LimitTerms[], isNew: boolean): Promise<void> {
    const { redis, keyspace, announce } = this.#deps;
    const values = terms.flatMap(({ name, max, remaining, periodMs, isRefilled }, index) => {
      const { resetMs = -1 } = limits[index] as RateLimit;
      return [name, max, remaining, Math.ceil(resetMs), periodMs, Number(isRefilled)];
    });
    const lifeMs = limitLifeMs + 2 * Math.max(...terms.map(({ periodMs }) => periodMs));
    const reported = runScript(redis, reportScript, [keyspace.vendorLimits(hashOf(id))], [lifeMs, ...values]);
    const tell = () => {
      this.#apply(id, terms);
      announce(JSON.stringify([this.#self, id, terms]));
    };
    // Calls count from now on, also those that begin before Redis answers.
    if (isNew) tell();
    const buckets = this.#targets.get(id)?.buckets;
    // Later responses that say as much say nothing new.
    for (const { name, remaining } of terms) {
      const bucket = buckets?.get(name);
      if (bucket !== undefined) bucket.remaining = Math.min(bucket.remaining, remaining);
    }
    try {
      const answer = (await reported) as number[];
      let isUsedElsewhere = false;
      for (const [index, { name, max }] of terms.entries()) {
        const [left = 0, less = 0] = answer.slice(index * 2);
        const bucket = buckets?.get(name);
        if (bucket !== undefined) Object.assign(bucket, { remaining: left, remainingAt: this.#deps.clock.now() });
        isUsedElsewhere ||= less > max / blockShare || (less > 0 && left < max / scarceShare);
      }
      if (isUsedElsewhere && !isNew) tell();
    } catch {
      // Redis is away: each worker goes on with what it knows.
    }
  }

  /** The vendor's own count takes the place of the estimate. */
  #settle(id: string, usage: CountedTokens, { inputTokens, outputTokensMax }: CallNeed, needs: Needs): void {
    const { inputFactor, outputTokens } = this.#meansOf(id);
    const now = this.#deps.clock.now();
    const buckets = [...(this.#targets.get(id)?.buckets.values() ?? [])];
    const countsCached = buckets.every(({ countsCachedTokens }) => countsCachedTokens);
    const input = usage.inputTokens - (countsCached ? 0 : usage.cachedInputTokens);
    // A vendor that counts the most that an answer may have gives nothing back.
    const output = Math.max(usage.outputTokens, outputTokensMax ?? 0);
    const counted = { requests: 1, tokens: input + output, inputTokens: input, outputTokens: output };
    for (const bucket of buckets) {
      const over = needs[bucket.counts] - counted[bucket.counts];
      if (over < 0 || bucket.blockUntil > now) bucket.block += over;
    }
    const mean = (old: number, last: number) => old + (last - old) * meanWeight;
    const means = {
      inputFactor: mean(inputFactor, Math.min(inputFactorMax, input / Math.max(1, inputTokens))),
      outputTokens: mean(outputTokens, usage.outputTokens),
    };
    setNewest(this.#means, id, means, limitedTargetsMax);
  }
}

/** The part that is left for all workers, with what time has brought back. */
function remainingOf({ remaining, remainingAt, max, periodMs, isRefilled, windowUntil }: Bucket, now: number): number {
  if (!isRefilled) return now < windowUntil ? remaining : max;
  return Math.min(max, Math.floor(remaining + ((now - remainingAt) * max) / periodMs));
}

/** Images and audio have more tokens than their addresses suggest. */
const inputFactorMax = 16;

const countKinds = ["requests", "tokens", "inputTokens", "outputTokens"] as const;
const noNeeds: Readonly<Needs> = { requests: 0, tokens: 0, inputTokens: 0, outputTokens: 0 };
const most = Number.POSITIVE_INFINITY;
const largestNeeds: Readonly<Needs> = { requests: most, tokens: most, inputTokens: most, outputTokens: most };

const hashOf = (id: string): string => hash("sha256", id, "base64url").slice(0, 22);
