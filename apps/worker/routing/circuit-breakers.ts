/**
 * A circuit breaker for each target. All workers share it through Redis, so an outage costs a few
 * calls in all instead of a few per request:
 *
 *     closed ──failures in a row──▶ open ──its time is over──▶ half-open: one call probes the target ──▶ closed, or open for longer
 *
 * While an operator keeps it open, no call probes the target, and no call's outcome closes it.
 */

import type { EventSink } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { type Clock, systemClock } from "#service/clock.ts";
import type { OperatorControls } from "#service/operator-controls.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { circuitBreakerLifeSeconds, circuitBreakerPollMs, openMs, openMsMax, probeMs, rowMs } from "../bounds.ts";

/**
 * KEYS[1] the circuit breakers, a hash from target to JSON. KEYS[2] the holder that probes this
 * target, if any. ARGV target, failuresMax, rowMs, openMs, openMsMax, entry's life in seconds.
 * Returns how long the circuit breaker is open from now on, in ms; 0 when it is closed. Atomic:
 * counting and opening are one step.
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
 * KEYS[1] the circuit breakers. KEYS[2] the holder that probes this target. ARGV target, holder,
 * how long a probe may take in ms. Returns 0 when the holder may call the target, -1 when another
 * holder probes it, else how long the circuit breaker is still open in ms. Atomic: this worker may
 * not know yet that another worker's probe failed.
 */
const enterScript = scriptOf(`${redisClock}
local found = redis.call("HGET", KEYS[1], ARGV[1])
if not found then return 0 end
local entry = cjson.decode(found)
if entry.level == 0 then return 0 end
if entry.until_ > nowMs then return entry.until_ - nowMs end
return redis.call("SET", KEYS[2], ARGV[2], "PX", ARGV[3], "NX") and 0 or -1
`);

/**
 * KEYS[1] the circuit breakers. Returns pairs of a target and how long it is still open in ms: 0
 * while half-open, -1 while closed.
 */
const readScript = scriptOf(`${redisClock}
local answer = {}
local all = redis.call("HGETALL", KEYS[1])
for index = 1, #all, 2 do
  local entry = cjson.decode(all[index + 1])
  answer[#answer + 1] = all[index]
  answer[#answer + 1] = entry.level == 0 and -1 or math.max(0, entry.until_ - nowMs)
end
return answer
`);

export type CircuitBreakerState = "closed" | "open" | "half-open";

export interface CircuitBreakerDeps {
  controls?: Pick<OperatorControls, "of" | "all">;
  events?: EventSink<WorkerEvents>;
}

interface Known {
  /** By the clock's `now`; undefined for a closed circuit breaker that counted failures. */
  openUntil: number | undefined;
}

export class CircuitBreakers {
  readonly #redis: Redis;
  readonly #clock: Clock;
  readonly #key: string;
  readonly #controls: Pick<OperatorControls, "of" | "all"> | undefined;
  readonly #events: EventSink<WorkerEvents> | undefined;
  readonly #probeKey: (target: string) => string;
  readonly #known = new Map<string, Known>();
  #timer: NodeJS.Timeout | undefined;
  /** A call asked for a target since the last poll. */
  #isUsed = true;

  /** `key` names the hash; the keys of probes begin with it. */
  constructor(redis: Redis, key: string, clock: Clock = systemClock, { controls, events }: CircuitBreakerDeps = {}) {
    this.#clock = clock;
    this.#controls = controls;
    this.#events = events;
    this.#redis = redis;
    this.#key = key;
    this.#probeKey = (target) => `${key}:proof:${target}`;
  }

  start(): void {
    this.#timer = setInterval(() => {
      // An idle worker leaves out every second poll.
      const isPolling = this.#isUsed || this.#known.size > 0;
      this.#isUsed = !isPolling;
      if (isPolling) void this.#poll();
    }, circuitBreakerPollMs);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Every call asks for the state of its target first. */
  stateOf(target: string, now: number): CircuitBreakerState {
    this.#isUsed = true;
    if (this.#keptOpenMs(target) > 0) return "open";
    const openUntil = this.#known.get(target)?.openUntil;
    if (openUntil === undefined) return "closed";
    return now < openUntil ? "open" : "half-open";
  }

  /**
   * 0 when the target may be called, else how long to wait before asking again, in ms. Without
   * Redis every target may be called.
   */
  async enter(target: string, holder: string, now: number): Promise<number> {
    const keptOpenMs = this.#keptOpenMs(target);
    if (keptOpenMs > 0) return keptOpenMs;
    const openUntil = this.#known.get(target)?.openUntil;
    if (openUntil === undefined) return 0;
    if (now < openUntil) return openUntil - now;
    try {
      const forMs = Number(
        await runScript(this.#redis, enterScript, [this.#key, this.#probeKey(target)], [target, holder, probeMs]),
      );
      if (forMs > 0) this.#known.set(target, { openUntil: now + forMs });
      return forMs < 0 ? circuitBreakerPollMs : forMs;
    } catch {
      return 0;
    }
  }

  /** The target answered, if only with an error that blames the caller. */
  succeeded(target: string): void {
    const breaker = this.#known.get(target);
    if (breaker === undefined) return;
    this.#known.delete(target);
    if (breaker.openUntil !== undefined) this.#events?.emit("circuitBreakerClosed", { target });
    this.#redis
      .pipeline()
      .hdel(this.#key, target)
      .del(this.#probeKey(target))
      .exec()
      .catch(() => undefined);
  }

  /** A probe ended without a result, so another call may probe the target. */
  unproven(target: string): void {
    this.#redis.del(this.#probeKey(target)).catch(() => undefined);
  }

  /** Counts a failure. `failuresMax` in a row open the circuit breaker. */
  failed(target: string, failuresMax: number): void {
    const breaker = this.#known.get(target);
    if (breaker === undefined) this.#known.set(target, { openUntil: undefined });
    runScript(
      this.#redis,
      failScript,
      [this.#key, this.#probeKey(target)],
      [target, failuresMax, rowMs, openMs, openMsMax, circuitBreakerLifeSeconds],
    ).then(
      (answer) => {
        const openMs = Number(answer);
        if (openMs === 0) return;
        const now = this.#clock.now();
        const isOpen = (this.#known.get(target)?.openUntil ?? 0) > now;
        this.#known.set(target, { openUntil: now + openMs });
        if (!isOpen) this.#events?.emit("circuitBreakerOpened", { target, openMs });
      },
      () => undefined,
    );
  }

  /** Every target that counted failures, or that an operator keeps open. */
  states(now: number): { target: string; state: CircuitBreakerState }[] {
    const kept = this.#controls?.all(this.#clock.epoch()).filter(({ kind }) => kind === "target") ?? [];
    const targets = new Set([...this.#known.keys(), ...kept.map(({ name }) => name)]);
    return [...targets].map((target) => ({ target, state: this.stateOf(target, now) }));
  }

  /** For how long an operator still keeps it open; 0 if none does. */
  #keptOpenMs(target: string): number {
    const epoch = this.#clock.epoch();
    const control = this.#controls?.of("target", target, epoch);
    return control === undefined ? 0 : (control.until ?? Number.POSITIVE_INFINITY) - epoch;
  }

  async #poll(): Promise<void> {
    if (this.#redis.status !== "ready") return;
    try {
      // Usually there is none, and one plain command says so.
      if ((await this.#redis.exists(this.#key)) === 0) {
        this.#known.clear();
        return;
      }
      const pairs = (await runScript(this.#redis, readScript, [this.#key], [])) as (string | number)[];
      const now = this.#clock.now();
      const seen = new Set<string>();
      for (let index = 0; index < pairs.length; index += 2) {
        const target = String(pairs[index]);
        const forMs = Number(pairs[index + 1]);
        seen.add(target);
        this.#known.set(target, { openUntil: forMs < 0 ? undefined : now + forMs });
      }
      for (const target of this.#known.keys()) if (!seen.has(target)) this.#known.delete(target);
    } catch {
      // The known states stay until Redis answers again.
    }
  }
}
