/**
 * The calls of the last minute and those that run, by target, for operators. Targets are those of
 * the catalogue, so there are few.
 */
import { type ErrorCode, statuses } from "#dialects/errors.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { Clock } from "#service/clock.ts";

const slotMs = 10_000;
const slotsMax = 6;

interface Counts {
  calls: number;
  /** Calls that failed, but not by the caller's fault. */
  failed: number;
  firstTokens: number;
  firstTokenMs: number;
}

const noCounts = { calls: 0, failed: 0, firstTokens: 0, firstTokenMs: 0 };

export interface TargetCounts extends Counts {
  target: string;
  /** Calls that run now, and the age of the oldest. */
  running: number;
  oldestMs: number;
}

/** Counts in slots of ten seconds, and drops those that are older than a minute. */
export class TargetLoad {
  readonly #clock: Clock;
  /** By the number of the slot, oldest first; in each by target. */
  readonly #slots = new Map<number, Map<string, Counts>>();
  /** Since when each call runs. */
  readonly #running = new Map<CallInfo, number>();
  readonly subscriber: Subscriber<WorkerEvents>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.subscriber = {
      upstreamCallStarted: ({ call }) => {
        this.#running.set(call, this.#clock.now());
      },
      firstContent: ({ call: { target }, sinceCallMs }) => {
        const counts = this.#countsOf(target);
        counts.firstTokens++;
        counts.firstTokenMs += sinceCallMs;
      },
      upstreamCallEnded: ({ call }) => {
        this.#running.delete(call);
        this.#countsOf(call.target).calls++;
      },
      upstreamCallFailed: ({ call, failure: { code } }) => {
        const { target } = call;
        this.#running.delete(call);
        const counts = this.#countsOf(target);
        counts.calls++;
        if (isOfUpstream(code)) counts.failed++;
      },
    };
  }

  /** The sums of the last minute, and the calls that run. */
  read(): TargetCounts[] {
    this.#slot();
    const sums = new Map<string, TargetCounts>();
    const sumOf = (target: string): TargetCounts => {
      const sum = sums.get(target) ?? { ...noCounts, target, running: 0, oldestMs: 0 };
      sums.set(target, sum);
      return sum;
    };
    const now = this.#clock.now();
    for (const [{ target }, startedAt] of this.#running) {
      const sum = sumOf(target);
      sum.running++;
      sum.oldestMs = Math.max(sum.oldestMs, Math.round(now - startedAt));
    }
    for (const slot of this.#slots.values())
      for (const [target, counts] of slot) {
        const sum = sumOf(target);
        sum.calls += counts.calls;
        sum.failed += counts.failed;
        sum.firstTokens += counts.firstTokens;
        sum.firstTokenMs += counts.firstTokenMs;
      }
    return [...sums.values()];
  }

  #countsOf(target: string): Counts {
    const slot = this.#slot();
    const present = slot.get(target);
    if (present !== undefined) return present;
    const counts = { ...noCounts };
    slot.set(target, counts);
    return counts;
  }

  #slot(): Map<string, Counts> {
    const number = Math.floor(this.#clock.now() / slotMs);
    const present = this.#slots.get(number);
    if (present !== undefined) return present;
    for (const old of this.#slots.keys()) if (old <= number - slotsMax) this.#slots.delete(old);
    const slot = new Map<string, Counts>();
    this.#slots.set(number, slot);
    return slot;
  }
}

const isOfUpstream = (code: ErrorCode): boolean => statuses[code] >= 500 || code === "rate_limited";
