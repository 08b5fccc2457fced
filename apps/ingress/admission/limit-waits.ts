/**
 * Requests that wait in this ingress for a rate limit of their caller (`onLimit: wait`), in place
 * of a 429. They hold no tokens and no slot of the limit, and cost Redis one script for each line
 * that is due, not for each request.
 */
import { isDeepStrictEqual } from "node:util";
import { limitWaitMsOf } from "#access/limits.ts";
import type { LimitDecision, LimitedSubject } from "#access/rate-limits.ts";
import type { QueuePlace } from "#relay/admission-queue.ts";
import type { Clock } from "#service/clock.ts";
import type { Capacity, Claim } from "../common/capacity.ts";
import { LimitLines } from "./limit-lines.ts";

export type LimitRefusal = Extract<LimitDecision, { kind: "refused" }>;

/** A request that may wait for its caller's limits. */
export interface LimitWaiter {
  readonly caller: { readonly id: string; readonly group: string };
  /** On the ingress's clock. */
  readonly startedAt: number;
  /** The caller's own bound on its wait, from the start; undefined for none. */
  readonly maxWaitMs: number | undefined;
  readonly inputTokens: number;
  /** It begins to wait, and gives up at this time. Called again when it waits for another limit. */
  onWait?(until: number): void;
}

export interface LimitWaitsOptions {
  clock: Clock;
  /** Requests that wait for limits, in this ingress. */
  limitWaiting: Capacity;
  /** The same of one key. */
  limitWaitingKeyMax: number;
  weightOf(group: string): number;
}

interface WaitState {
  claim: Claim;
  /** Lets it ask its limits (true), or give up. */
  resume: ((mayAsk: boolean) => void) | undefined;
}

export class LimitWaits {
  readonly #options: LimitWaitsOptions;
  readonly #lines = new LimitLines<LimitWaiter>(Math.random);
  readonly #waits = new Map<LimitWaiter, WaitState>();
  /** The last refusal of each line, and when it came. */
  readonly #refusals = new Map<string, { refusal: LimitRefusal; at: number }>();
  readonly #timers = new Map<string, { at: number; timer: NodeJS.Timeout }>();

  constructor(options: LimitWaitsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#waits.size;
  }

  /** Why a newcomer must wait: others wait for one of its limits. */
  refusalBefore(subjects: readonly LimitedSubject[]): LimitRefusal | undefined {
    for (const subject of subjects) {
      const last = this.#refusals.get(lineNameOf(subject));
      // Other limits, after a change of the catalogue, are asked themselves.
      if (last === undefined || !isDeepStrictEqual(last.refusal.subject.limits, subject.limits)) continue;
      const { refusal, at } = last;
      return { ...refusal, retryMs: Math.max(0, refusal.retryMs - (this.#options.clock.now() - at)) };
    }
    return undefined;
  }

  /** Whether a refusal lets a request wait, however long it has waited. */
  mayWait({ subject, limit }: LimitRefusal): boolean {
    return limitWaitMsOf(subject.limits, limit) !== undefined;
  }

  /**
   * Resolves to true when the request may ask its limits again, in this turn of the event loop. It
   * then ends its wait with `end`, or calls this again. Resolves to false if it must not wait, or
   * not any longer.
   */
  turn(waiter: LimitWaiter, refusal: LimitRefusal): Promise<boolean> | boolean {
    const { caller, startedAt, maxWaitMs = Number.POSITIVE_INFINITY, inputTokens } = waiter;
    const { subject, limit, retryMs } = refusal;
    const waitMs = limitWaitMsOf(subject.limits, limit);
    const countsTokens = limit === "tokensPerMinute";
    const isTooLarge = countsTokens && inputTokens > (subject.limits.tokensPerMinute as number);
    if (waitMs === undefined || isTooLarge) return false;
    const now = this.#options.clock.now();
    const name = lineNameOf(subject);
    const perMinute = limit === "requestsPerMinute" ? subject.limits.requestsPerMinute : undefined;
    const lineRefusal = { retryMs, perMinute, countsTokens };
    const until = startedAt + waitMs;
    const boundAt = startedAt + Math.min(waitMs, maxWaitMs);
    const hasAsked = this.#lines.lineOf(waiter) === name;
    const isNewLine = !this.#lines.has(name);
    if (now >= until || ((isNewLine || hasAsked) && perMinute !== undefined && now + retryMs > boundAt)) return false;
    if (!hasAsked && !this.#lines.canMeet(name, caller.id, boundAt)) return false;
    if (hasAsked) this.#lines.refused(waiter, lineRefusal, now);
    else if (!this.#join(waiter, name, { until, refusal: lineRefusal }, now)) return false;
    if (isNewLine || hasAsked) this.#refusals.set(name, { refusal, at: now });
    waiter.onWait?.(until);
    const wait = this.#waits.get(waiter) as WaitState;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    wait.resume = resolve;
    this.#arm(name, now);
    return promise;
  }

  /** The request waits no longer, because its limits have decided. May be called repeatedly. */
  end(waiter: LimitWaiter): void {
    const wait = this.#waits.get(waiter);
    if (wait === undefined) return;
    const now = this.#options.clock.now();
    this.#waits.delete(waiter);
    wait.claim.end();
    this.#leave(waiter, now);
    wait.resume?.(false);
  }

  /** The place of a waiting request in the line of its limit. */
  placeOf(waiter: LimitWaiter): QueuePlace | undefined {
    const place = this.#lines.placeOf(waiter);
    if (place === undefined) return undefined;
    const { ahead, at } = place;
    const seconds = at === undefined ? undefined : Math.max(0, at - this.#options.clock.now()) / 1_000;
    return { ahead, seconds: seconds === undefined ? undefined : { from: seconds, to: seconds } };
  }

  /** Limits may have changed. */
  askAgain(): void {
    const now = this.#options.clock.now();
    for (const name of this.#lines.askAgain(now)) this.#arm(name, now);
  }

  /** A generation that these subjects limit has ended. */
  wake(subjects: readonly LimitedSubject[]): void {
    const now = this.#options.clock.now();
    for (const subject of subjects) {
      const name = lineNameOf(subject);
      if (!this.#lines.has(name)) continue;
      this.#lines.wake(name, now);
      this.#arm(name, now);
    }
  }

  #join(
    waiter: LimitWaiter,
    name: string,
    { until, refusal }: { until: number; refusal: Parameters<LimitLines<LimitWaiter>["refused"]>[1] },
    now: number,
  ): boolean {
    const { limitWaiting, limitWaitingKeyMax, weightOf } = this.#options;
    const { id: key, group } = waiter.caller;
    if (!this.#waits.has(waiter)) {
      const claim = limitWaiting.claim(key);
      if (limitWaiting.amountOf(key) >= limitWaitingKeyMax || claim.hold(1) !== undefined) return false;
      this.#waits.set(waiter, { claim, resume: undefined });
    } else this.#leave(waiter, now);
    this.#lines.join(name, waiter, { share: { group, weight: weightOf(group), key }, until, refusal }, now);
    return true;
  }

  #leave(waiter: LimitWaiter, now: number): void {
    const name = this.#lines.lineOf(waiter);
    if (name === undefined) return;
    this.#lines.leave(waiter, now);
    this.#arm(name, now);
  }

  /** One timer for each line. */
  #arm(name: string, now: number): void {
    const at = this.#lines.nextAt(name);
    const armed = this.#timers.get(name);
    if (armed?.at === at) return;
    clearTimeout(armed?.timer);
    if (at !== undefined)
      this.#timers.set(name, { at, timer: setTimeout(() => this.#run(name), Math.max(0, Math.ceil(at - now))) });
    else {
      this.#timers.delete(name);
      if (!this.#lines.has(name)) this.#refusals.delete(name);
    }
  }

  #run(name: string): void {
    this.#timers.delete(name);
    const now = this.#options.clock.now();
    const { due, expired } = this.#lines.takeDue(name, now);
    for (const waiter of expired) this.end(waiter);
    for (const waiter of due) {
      const wait = this.#waits.get(waiter);
      const resume = wait?.resume;
      if (wait !== undefined) wait.resume = undefined;
      resume?.(true);
    }
    this.#arm(name, now);
  }
}

const lineNameOf = ({ scope, name }: LimitedSubject): string => `${scope} ${name}`;
