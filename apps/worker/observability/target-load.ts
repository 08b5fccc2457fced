/**
 * The calls of the last minute, by target, for operators. Targets are those of the catalogue, so
 * there are few.
 */
import { type ErrorCode, statuses } from "#dialects/errors.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
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

export interface TargetCounts extends Counts {
  target: string;
}

/** Counts in slots of ten seconds, and drops those that are older than a minute. */
export class TargetLoad {
  readonly #clock: Clock;
  /** By the number of the slot, oldest first; in each by target. */
  readonly #slots = new Map<number, Map<string, Counts>>();
  readonly subscriber: Subscriber<WorkerEvents>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.subscriber = {
      firstContent: ({ call: { target }, sinceCallMs }) => {
        const counts = this.#countsOf(target);
        counts.firstTokens++;
        counts.firstTokenMs += sinceCallMs;
      },
      upstreamCallEnded: ({ call: { target } }) => {
        this.#countsOf(target).calls++;
      },
      upstreamCallFailed: ({ call: { target }, failure: { code } }) => {
        const counts = this.#countsOf(target);
        counts.calls++;
        if (isOfUpstream(code)) counts.failed++;
      },
    };
  }

  /** The sums of the last minute. */
  read(): TargetCounts[] {
    this.#slot();
    const sums = new Map<string, TargetCounts>();
    for (const slot of this.#slots.values())
      for (const [target, counts] of slot) {
        const sum = sums.get(target) ?? { target, calls: 0, failed: 0, firstTokens: 0, firstTokenMs: 0 };
        sum.calls += counts.calls;
        sum.failed += counts.failed;
        sum.firstTokens += counts.firstTokens;
        sum.firstTokenMs += counts.firstTokenMs;
        sums.set(target, sum);
      }
    return [...sums.values()];
  }

  #countsOf(target: string): Counts {
    const slot = this.#slot();
    const present = slot.get(target);
    if (present !== undefined) return present;
    const counts = { calls: 0, failed: 0, firstTokens: 0, firstTokenMs: 0 };
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
