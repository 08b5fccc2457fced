/**
 * A circuit breaker for each target, shared by all workers through Redis, so that an outage costs a few calls in all and not a few per request:
 *
 *     closed ─▶ (failures in a row) ─▶ open ─▶ (its time is over: one call is let through) ─▶ closed, or open for longer
 */
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";

/** Failures further apart are not in a row. */
const rowMs = 30_000;
/** How long a circuit breaker is open at first, and at most; it doubles in between. */
const openMs = 1_000;
const openMsMax = 4_000;
/** How long one call may take to prove that a target is back, before the next one is let through as well. */
const proofMs = 5_000;
const pollMs = 500;
const entryLifeSeconds = 600;

/**
 * KEYS[1] the circuit breakers, a hash from target to JSON. KEYS[2] who proves this one, if anybody.
 * ARGV target, failuresMax, rowMs, openMs, openMsMax, entry's life in seconds.
 * Returns how long the circuit breaker is open from now on, in ms; 0 when it is closed. Atomic: the count and the opening are one.
 */
const failScript = scriptOf(`${redisClock}
local found = redis.call("HGET", KEYS[1], ARGV[1])
local entry = found and cjson.decode(found) or { failures = 0, level = 0, until_ = 0, at = nowMs }
if entry.level == 0 and nowMs - entry.at > tonumber(ARGV[3]) then entry.failures = 0 end
entry.failures = entry.failures + 1
entry.at = nowMs
if entry.failures >= tonumber(ARGV[2]) and entry.until_ <= nowMs then
  entry.until_ = nowMs + math.min(tonumber(ARGV[5]), tonumber(ARGV[4]) * 2 ^ entry.level)
  entry.level = math.min(entry.level + 1, 16)
end
redis.call("HSET", KEYS[1], ARGV[1], cjson.encode(entry))
redis.call("EXPIRE", KEYS[1], ARGV[6])
redis.call("DEL", KEYS[2])
return math.max(0, entry.until_ - nowMs)
`);

/**
 * KEYS[1] the circuits. KEYS[2] who proves this one. ARGV target, holder, how long its proof may take in ms.
 * Returns 0 when the holder may call the target, else how long the circuit breaker is still open in ms; -1 when another holder proves it. Atomic: what this
 * worker knows may be older than another's failed proof.
 */
const enterScript = scriptOf(`${redisClock}
local found = redis.call("HGET", KEYS[1], ARGV[1])
if not found then return 0 end
local entry = cjson.decode(found)
if entry.level == 0 then return 0 end
if entry.until_ > nowMs then return entry.until_ - nowMs end
return redis.call("SET", KEYS[2], ARGV[2], "PX", ARGV[3], "NX") and 0 or -1
`);

/** KEYS[1] the circuits. Returns pairs of target and how long it is still open in ms: 0 when it may be tried, -1 while it is closed. */
const readScript = scriptOf(`${redisClock}
local answer = {}
local all = redis.call("HGETALL", KEYS[1])
for place = 1, #all, 2 do
  local entry = cjson.decode(all[place + 1])
  answer[#answer + 1] = all[place]
  answer[#answer + 1] = entry.level == 0 and -1 or math.max(0, entry.until_ - nowMs)
end
return answer
`);

export type CircuitBreakerState = "closed" | "open" | "half-open";

interface Known {
  /** Of performance.now(); undefined while it is closed with failures on its account. */
  openUntil: number | undefined;
}

export class CircuitBreakers {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #proofKey: (target: string) => string;
  readonly #known = new Map<string, Known>();
  #timer: NodeJS.Timeout | undefined;

  /** `key` is that of the hash; what a proof is claimed under begins with it. */
  constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
    this.#proofKey = (target) => `${key}:proof:${target}`;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#poll(), pollMs);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  stateOf(target: string, now: number): CircuitBreakerState {
    const openUntil = this.#known.get(target)?.openUntil;
    if (openUntil === undefined) return "closed";
    return now < openUntil ? "open" : "half-open";
  }

  /** May this target be called? 0 if so; else how long to wait before asking again, in ms. Without Redis nothing is known, and all may. */
  async enter(target: string, holder: string, now: number): Promise<number> {
    const openUntil = this.#known.get(target)?.openUntil;
    if (openUntil === undefined) return 0;
    if (now < openUntil) return openUntil - now;
    try {
      const forMs = Number(
        await runScript(this.#redis, enterScript, [this.#key, this.#proofKey(target)], [target, holder, proofMs]),
      );
      if (forMs > 0) this.#known.set(target, { openUntil: now + forMs });
      return forMs < 0 ? pollMs : forMs;
    } catch {
      return 0;
    }
  }

  /** The target answered, if only that the caller is wrong. */
  succeeded(target: string): void {
    if (!this.#known.delete(target)) return;
    this.#redis
      .pipeline()
      .hdel(this.#key, target)
      .del(this.#proofKey(target))
      .exec()
      .catch(() => undefined);
  }

  /** Who was to prove the target did not: another may. */
  unproven(target: string): void {
    this.#redis.del(this.#proofKey(target)).catch(() => undefined);
  }

  /** `failuresMax` in a row open the circuit breaker. */
  failed(target: string, failuresMax: number): void {
    const known = this.#known.get(target);
    if (known === undefined) this.#known.set(target, { openUntil: undefined });
    runScript(
      this.#redis,
      failScript,
      [this.#key, this.#proofKey(target)],
      [target, failuresMax, rowMs, openMs, openMsMax, entryLifeSeconds],
    ).then(
      (answer) => {
        const forMs = Number(answer);
        if (forMs > 0) this.#known.set(target, { openUntil: performance.now() + forMs });
      },
      () => undefined,
    );
  }

  /** Every target with failures on its account. */
  states(now: number): { target: string; state: CircuitBreakerState }[] {
    return [...this.#known.keys()].map((target) => ({ target, state: this.stateOf(target, now) }));
  }

  async #poll(): Promise<void> {
    if (this.#redis.status !== "ready") return;
    try {
      const pairs = (await runScript(this.#redis, readScript, [this.#key], [])) as (string | number)[];
      const now = performance.now();
      const seen = new Set<string>();
      for (let place = 0; place < pairs.length; place += 2) {
        const target = String(pairs[place]);
        const forMs = Number(pairs[place + 1]);
        seen.add(target);
        this.#known.set(target, { openUntil: forMs < 0 ? undefined : now + forMs });
      }
      for (const target of this.#known.keys()) if (!seen.has(target)) this.#known.delete(target);
    } catch {
      // What is known stays as it is until Redis answers again.
    }
  }
}
