/**
 * The requests that a process may admit without asking Redis. Each answer of Redis gives it a share
 * of what every limit has left, for a moment. Near a limit the share holds no request, so Redis
 * decides. Redis keeps nothing back for it: where others use up a limit in that moment, each
 * process may exceed it by its share.
 */
import type { Clock } from "#service/clock.ts";
import { allowanceKeptMs, allowanceMs, allowanceShare } from "./bounds.ts";
import { type Limits, limitsCount } from "./limits.ts";

/** A subject with its limits; the same name, the same limits. */
export interface AllowanceSubject {
  readonly name: string;
  readonly limits: Limits;
}

/** The use of a subject, as Redis answers. */
export interface Counts {
  /** In the last minute. */
  requests: number;
  /** Until none of the requests counts. */
  readonly requestsResetMs: number;
  tokens: number;
  readonly tokensResetMs: number;
  readonly running: number;
  /** The nano-units that every budget has left; 0 if the script did not read them. */
  readonly room: number;
  /** Redis' time in epoch milliseconds. */
  readonly now: number;
}

interface Amounts {
  requests: number;
  tokens: number;
  nano: number;
}

interface Allowance {
  /** Infinite without a limit. */
  readonly left: Amounts;
  until: number;
  /** With the requests that this process has admitted since. */
  readonly counts: Counts;
  /** The sum of all that this process has ever taken. */
  readonly taken: Amounts;
}

/** A question to Redis: when it was sent, and what had been taken of each subject by then. */
interface Question {
  readonly subjects: readonly AllowanceSubject[];
  readonly at: number;
  readonly taken: readonly Amounts[];
}

const nothing: Amounts = { requests: 0, tokens: 0, nano: 0 };

export class Allowances {
  readonly #clock: Clock;
  readonly #byName = new Map<string, Allowance>();
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Call it as Redis is asked about the subjects, and was told of all that has been taken. */
  ask(subjects: readonly AllowanceSubject[]): Question {
    const taken = subjects.map(({ name }) => ({ ...(this.#byName.get(name)?.taken ?? nothing) }));
    return { subjects, at: this.#clock.now(), taken };
  }

  /** Redis' answer about each subject of the question. */
  learn({ subjects, at, taken: takenBefore }: Question, answer: readonly Counts[]): void {
    this.#sweep();
    for (const [index, subject] of subjects.entries()) {
      const taken = this.#byName.get(subject.name)?.taken ?? { ...nothing };
      const before = takenBefore[index] as Amounts;
      const counts = answer[index] as Counts;
      const requests = taken.requests - before.requests;
      const tokens = taken.tokens - before.tokens;
      const share = shareOf(subject.limits, counts);
      this.#byName.set(subject.name, {
        left: {
          requests: share.requests - requests,
          tokens: share.tokens - tokens,
          nano: share.nano - (taken.nano - before.nano),
        },
        until: at + allowanceMs,
        counts: { ...counts, requests: counts.requests + requests, tokens: counts.tokens + tokens },
        taken,
      });
    }
  }

  /** Redis did not answer. */
  lose(subjects: readonly AllowanceSubject[]): void {
    for (const { name } of subjects) {
      const allowance = this.#byName.get(name);
      if (allowance !== undefined) allowance.until = Number.NEGATIVE_INFINITY;
    }
  }

  /**
   * Takes a request from the allowance of every subject, and returns the use of each with it.
   * Undefined, with nothing taken, if one of them has too little.
   */
  take(subjects: readonly AllowanceSubject[], tokens: number, nano: number): Counts[] | undefined {
    if (!this.has(subjects, tokens, nano)) return undefined;
    return subjects.map(({ name }) => {
      const { left, counts, taken } = this.#byName.get(name) as Allowance;
      left.requests--;
      left.tokens -= tokens;
      left.nano -= nano;
      taken.requests++;
      taken.tokens += tokens;
      taken.nano += nano;
      counts.requests++;
      counts.tokens += tokens;
      return counts;
    });
  }

  /** Whether every subject allows one more request with so many tokens and nano-units. */
  has(subjects: readonly AllowanceSubject[], tokens: number, nano: number): boolean {
    const now = this.#clock.now();
    return subjects.every(({ name }) => {
      const allowance = this.#byName.get(name);
      if (allowance === undefined || allowance.until < now) return false;
      const { left } = allowance;
      return left.requests >= 1 && left.tokens >= tokens && left.nano >= nano;
    });
  }

  /** Forgets allowances that no answer can concern any more. */
  #sweep(): void {
    const endedBefore = this.#clock.now() - allowanceKeptMs;
    if (endedBefore < this.#sweptAt) return;
    this.#sweptAt = this.#clock.now();
    for (const [name, { until }] of this.#byName) if (until < endedBefore) this.#byName.delete(name);
  }
}

function shareOf(limits: Limits, { requests, tokens, running, room }: Counts): Amounts {
  const none = Number.POSITIVE_INFINITY;
  const { requestsPerMinute = none, tokensPerMinute = none, generationsMax = none } = limits;
  const part = (left: number) => Math.floor(left / allowanceShare);
  return {
    requests: part(Math.min(requestsPerMinute - requests, generationsMax - running)),
    tokens: part(tokensPerMinute - tokens),
    nano: limitsCount(limits, "money") ? part(room) : none,
  };
}
