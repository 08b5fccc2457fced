/**
 * Which target an attempt calls next: what is retried, what moves on to another target, what is
 * given up. Pure; times in ms.
 *
 * A model's own targets serve the same model, so a failure moves on to the next of them at once. A
 * fallback is a different model. It is called only after the model's own targets used up their
 * retries, are given up, are blocked, or ask for a wait that is too long.
 */

import { credentialNamesOf } from "#catalogue/environment.ts";
import type { Failure } from "#dialects/errors.ts";
import { type Repair, repairsMax } from "#dialects/repairs/repairs.ts";
import {
  backOffMs,
  backOffMsMax,
  blockedMsMax,
  flexPauseMs,
  flexPauseMsMax,
  flexWaitMsMax,
  fullWaitMsMax,
  retryAfterSecondsMax,
  vainWaitMsMax,
  waitMsMax,
} from "../bounds.ts";
import type { Candidate } from "./route.ts";
import type { Block, BlockedBy, CallOutcome } from "./routing.ts";

/**
 * The class of a failed call, which decides about the next one.
 *
 * - `caller`: the request is at fault. The failure is passed on at once.
 * - `context`: the prompt is too long. Only other models are called whose window is larger, or
 *   unknown.
 * - `credential`, `quota`: the credential was rejected, or its account is exhausted. The next
 *   credential or target is used.
 * - `capacity`: a rate limit of this credential. Retried after a pause, or at once elsewhere.
 * - `transient`: the target failed. Retried after a pause, or at once elsewhere.
 * - `silent`, `missing`: the target did not answer, or lacks the model. This attempt does not call
 *   it again, nor a target whose failures took seconds.
 * - `unclear`: the request or the target may be at fault. The next target is called, and nothing is
 *   concluded about this one.
 */
export type FailureClass =
  | "caller"
  | "context"
  | "credential"
  | "quota"
  | "capacity"
  | "transient"
  | "silent"
  | "missing"
  | "unclear";

/** `status` is the upstream's; undefined when no response arrived. */
export function classifyFailure({ code, operatorFault }: Failure, status: number | undefined): FailureClass {
  switch (operatorFault) {
    case "credential":
    case "quota":
      return operatorFault;
    case "model":
      return "missing";
    case "unclear":
      return "unclear";
    default:
      operatorFault satisfies undefined;
  }
  switch (code) {
    case "context_too_long":
      return "context";
    case "invalid_request":
    case "content_filter":
    case "unprocessable":
    case "body_too_large":
      return "caller";
    case "rate_limited":
      return "capacity";
    case "upstream_timeout":
      return status === undefined || status < 300 ? "silent" : "transient";
    default:
      return status !== undefined && status >= 300 && status < 500 && !retriedStatuses.includes(status)
        ? "unclear"
        : "transient";
  }
}

/**
 * Request Timeout, Conflict and Too Early ask for a retry: RFC 9110 15.5.9, 15.5.10, RFC 8470 5.2.
 */
const retriedStatuses = [408, 409, 425];

/**
 * The outcome for the target and its credential; undefined if the failure says nothing about them.
 */
export function outcomeOf(failureClass: FailureClass): CallOutcome | undefined {
  switch (failureClass) {
    case "caller":
    case "context":
      return "answered";
    case "silent":
      return "transient";
    case "unclear":
      return undefined;
    default:
      return failureClass;
  }
}

/**
 * Why a target may not be called yet: a pause after a failure of this attempt, or something that
 * blocks it for all attempts.
 */
interface Pause {
  until: number;
  by: "backoff" | BlockedBy;
}

/** `calls` counts the calls of this model only. */
interface ModelState {
  candidates: Candidate[];
  calls: number;
}

export class RetryState {
  readonly #models: readonly ModelState[];
  readonly #random: () => number;
  readonly #givenUp = new Set<Candidate>();
  /** By the target's key. */
  readonly #repairs = new Map<string, readonly Repair[]>();
  /** Is called next, with one more repair. */
  #repeated: Candidate | undefined;
  /** Full, and waited for before any other is called. */
  #awaited: Candidate | undefined;
  #isRefused = false;
  /** By the target's key, because a target that is listed twice is still one target. */
  readonly #pauses = new Map<string, Pause>();
  /** How long this attempt waited in vain for each target, by its key. */
  readonly #vainWaitsMs = new Map<string, number>();
  readonly #startedAt: number;
  /** How often this attempt waited for capacity for flex. */
  #flexWaits = 0;
  #calls = 0;
  #failure: Failure | undefined;
  #kept: Failure | undefined;
  /** The last reason why a target was blocked. */
  #blocked: { by: BlockedBy; forMs: number } | undefined;

  /**
   * `candidates` are in the order of `candidatesOf`. `random` returns numbers from 0 to below 1.
   */
  constructor(candidates: readonly Candidate[], now: number, random: () => number) {
    const models = Map.groupBy(candidates, ({ model }) => model);
    this.#models = [...models.values()].map((ofModel) => ({ candidates: ofModel, calls: 0 }));
    this.#startedAt = now;
    this.#random = random;
  }

  /** Calls so far, of all models. */
  get calls(): number {
    return this.#calls;
  }

  /**
   * The targets of one model that may be called now, those that failed before last. Empty during a
   * pause, and when no target is left.
   */
  ready(now: number): Candidate[] {
    if (this.#repeated !== undefined && this.#untilOf(this.#repeated.key) <= now) return [this.#repeated];
    if (this.#isRefused) return [];
    if (this.#awaited !== undefined) return this.#untilOf(this.#awaited.key) <= now ? [this.#awaited] : [];
    for (const model of this.#models) {
      const ready = this.#leftOf(model).filter(({ key }) => this.#untilOf(key) <= now);
      if (ready.length === 1) return ready;
      if (ready.length > 0) return ready.toSorted((one, other) => this.#untilOf(one.key) - this.#untilOf(other.key));
      if (this.#backOffMs(model, now) !== undefined) return [];
    }
    return [];
  }

  /**
   * While `ready` is empty: how long until it is not. Undefined when that takes too long or never
   * happens.
   */
  waitMs(now: number): number | undefined {
    if (this.#isRefused) return undefined;
    if (this.#awaited !== undefined) return Math.max(0, this.#untilOf(this.#awaited.key) - now);
    const blockedMs: number[] = [];
    for (const model of this.#models) {
      const backOffMs = this.#backOffMs(model, now);
      if (backOffMs !== undefined) return backOffMs;
      for (const { key } of this.#leftOf(model)) {
        const pause = this.#pauses.get(key);
        const mayWait = this.#failure !== undefined || pause?.by === "concurrency" || pause?.by === "rate-limit";
        if (pause !== undefined && mayWait && pause.until - now <= waitMsMax)
          blockedMs.push(Math.max(0, pause.until - now));
      }
    }
    return blockedMs.length === 0 || now - this.#startedAt > blockedMsMax ? undefined : Math.min(...blockedMs);
  }

  /** No other target is called now, because one is full. */
  get isHeldUp(): boolean {
    return this.#isRefused || this.#awaited !== undefined;
  }

  began(candidate: Candidate): void {
    this.#repeated = undefined;
    this.#awaited = undefined;
    this.#calls++;
    const model = this.#modelOf(candidate);
    if (model !== undefined) model.calls++;
  }

  /** The target can't serve this request. */
  unsuitable(candidate: Candidate, failure: Failure): void {
    this.#repeated = undefined;
    this.#awaited = undefined;
    this.#givenUp.add(candidate);
    this.#failure ??= failure;
  }

  /**
   * Attempts that wait for the same rate limit wait a random time longer, so that they do not all
   * return at once.
   */
  blocked(candidate: Candidate, { by, forMs: leastMs, whenFull }: Omit<Block, "kind">, now: number): void {
    const forMs = Math.max(1, leastMs);
    const until = now + (by === "rate-limit" ? forMs * (1 + this.#random() / 4) : forMs);
    this.#repeated = undefined;
    this.#blocked = { by, forMs };
    this.#pauses.set(candidate.key, { until, by });
    this.#isRefused = whenFull === "refuse";
    this.#awaited = whenFull === "wait" && until - this.#startedAt <= fullWaitMsMax ? candidate : undefined;
  }

  /**
   * The target has no capacity for flex now. Returns whether it is called again later, which does
   * not count as a retry; false once that took too long.
   */
  waitsForFlex(candidate: Candidate, retryAfterMs = 0, now: number): boolean {
    const pauseMs = Math.min(flexPauseMsMax, flexPauseMs * 2 ** this.#flexWaits) * (0.5 + this.#random());
    const until = now + Math.max(retryAfterMs, pauseMs);
    if (until - this.#startedAt > flexWaitMsMax) return false;
    this.#flexWaits++;
    this.#pauses.set(candidate.key, { until, by: "backoff" });
    this.#awaited = candidate;
    const model = this.#modelOf(candidate);
    if (model !== undefined) model.calls--;
    return true;
  }

  /** The changes with which this target gets the request. */
  repairsFor({ key }: Candidate): readonly Repair[] {
    return this.#repairs.get(key) ?? [];
  }

  /**
   * The target refused the request, which this repair may change. Returns whether the target is
   * called again, which does not count as a retry; false if it refused the repaired request, too.
   */
  repeats(candidate: Candidate, repair: Repair, failure: Failure): boolean {
    const earlier = this.repairsFor(candidate);
    const name = JSON.stringify(repair);
    if (earlier.length >= repairsMax || earlier.some((one) => JSON.stringify(one) === name)) return false;
    this.#failure = failure;
    this.#repairs.set(candidate.key, [...earlier, repair]);
    this.#repeated = candidate;
    const model = this.#modelOf(candidate);
    if (model !== undefined) model.calls--;
    return true;
  }

  /**
   * A call failed. Returns whether another call is possible. `vainWaitMs`: how long the call had
   * sent nothing for the caller when it failed. A failure that took long is like silence: the next
   * call of this target would take as long again.
   */
  failed(
    candidate: Candidate,
    failureClass: FailureClass,
    failure: Failure,
    { retryAfterMs, vainWaitMs = 0 }: { retryAfterMs?: number | undefined; vainWaitMs?: number },
    now: number,
  ): boolean {
    this.#failure = failure;
    const hasOtherCredentials = credentialNamesOf(candidate.upstream).length > 1;
    switch (failureClass) {
      case "caller":
        return false;
      case "context": {
        const { model } = candidate;
        this.#giveUp((other) => other.model === model || !mayBeLarger(other.model, model));
        this.keep(failure);
        break;
      }
      case "credential":
      case "quota":
        if (!hasOtherCredentials) this.#giveUp(({ key }) => key === candidate.key);
        break;
      case "unclear":
      case "silent":
      case "missing":
        this.#giveUp(({ key }) => key === candidate.key);
        break;
      case "capacity":
      case "transient": {
        const vainWaitsMs = (this.#vainWaitsMs.get(candidate.key) ?? 0) + vainWaitMs;
        this.#vainWaitsMs.set(candidate.key, vainWaitsMs);
        if (vainWaitsMs >= vainWaitMsMax) {
          this.#giveUp(({ key }) => key === candidate.key);
          break;
        }
        const calls = this.#modelOf(candidate)?.calls ?? 1;
        const backOff = Math.min(backOffMsMax, backOffMs * 2 ** (calls - 1)) * (0.5 + this.#random());
        const pauseMs = failureClass === "capacity" && hasOtherCredentials ? 0 : Math.max(backOff, retryAfterMs ?? 0);
        this.#pauses.set(candidate.key, { until: now + pauseMs, by: "backoff" });
        break;
      }
      default:
        failureClass satisfies never;
    }
    return this.#models.some((model) => this.#leftOf(model).length > 0);
  }

  /** Whether another target than this one is left. */
  hasOther({ key }: Candidate): boolean {
    return this.#models.some((model) => this.#leftOf(model).some((other) => other.key !== key));
  }

  /** The caller gets this failure, whatever later calls fail with. The first one counts. */
  keep(failure: Failure): void {
    this.#kept ??= failure;
  }

  /** The failure that the caller gets if no target is left. */
  get failure(): Failure {
    if (this.#kept !== undefined) return this.#kept;
    if (this.#failure !== undefined) return this.#failure;
    const retryAfterSeconds = Math.min(
      retryAfterSecondsMax,
      Math.max(1, Math.ceil((this.#blocked?.forMs ?? 1_000) / 1_000)),
    );
    return { ...((this.#blocked && blockedFailures[this.#blocked.by]) ?? blockedOtherwise), retryAfterSeconds };
  }

  /** The targets of a model that may still be called; none once its retries are used up. */
  #leftOf({ candidates, calls }: ModelState): Candidate[] {
    return candidates.filter((candidate) => calls <= candidate.model.retries && !this.#givenUp.has(candidate));
  }

  /**
   * How long until a target of this model is retried or its short rate limit ends; undefined when
   * that takes too long or never happens.
   */
  #backOffMs(model: ModelState, now: number): number | undefined {
    const waits = this.#leftOf(model).flatMap(({ key }) => {
      const pause = this.#pauses.get(key);
      const isShort = pause !== undefined && pause.until - now <= waitMsMax;
      const isWaitedFor =
        pause?.by === "backoff" || (pause?.by === "rate-limit" && now - this.#startedAt <= blockedMsMax);
      return isShort && isWaitedFor ? [Math.max(0, pause.until - now)] : [];
    });
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  #modelOf(candidate: Candidate): ModelState | undefined {
    return this.#models.find(({ candidates }) => candidates.includes(candidate));
  }

  #untilOf(key: string): number {
    return this.#pauses.get(key)?.until ?? 0;
  }

  #giveUp(isGivenUp: (candidate: Candidate) => boolean): void {
    for (const { candidates } of this.#models)
      for (const candidate of candidates) if (isGivenUp(candidate)) this.#givenUp.add(candidate);
  }
}

const blockedFailures: Partial<Record<BlockedBy, Failure>> = {
  concurrency: { code: "overloaded", message: "The upstream of this model is full; try again in a moment." },
  "rate-limit": {
    code: "rate_limited",
    message: "The upstream of this model accepts no more requests at the moment; try again later.",
  },
};
const blockedOtherwise: Failure = {
  code: "unavailable",
  message: "No upstream of this model can accept requests at the moment; try again in a moment.",
};

/**
 * Whether the window of `other` may be larger than that of `model`; true if one of them is unknown.
 */
const mayBeLarger = (other: Candidate["model"], model: Candidate["model"]): boolean =>
  other.contextWindow === undefined || model.contextWindow === undefined || other.contextWindow > model.contextWindow;
