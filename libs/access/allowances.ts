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

/** The requests and tokens of a subject in the last minute. */
export interface Window {
  readonly requests: number;
  /** Until none of the requests counts. */
  readonly requestsResetMs: number;
  readonly tokens: number;
  readonly tokensResetMs: number;
}

/** The use of a subject, as Redis answers. */
export interface Counts extends Window {
  readonly running: number;
  /** The nano-units that every budget has left; 0 if the script did not read them. */
  readonly room: number;
  /** Redis' time in epoch milliseconds. */
  readonly now: number;
}

interface Amounts {
  readonly requests: number;
  readonly tokens: number;
  readonly nano: number;
}

/** The last answer about a subject. */
interface Allowance {
  readonly share: Amounts;
  until: number;
  readonly counts: Counts;
  /** All that this process had ever taken when Redis was asked, and has now. */
  readonly takenBefore: Amounts;
  taken: Amounts;
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

  /**
   * Call it as Redis is asked to count `all` for each of the subjects, and was told of everything
   * that has been taken. Until Redis answers, they leave less of the last allowances.
   */
  ask(subjects: readonly AllowanceSubject[], all: readonly Amounts[] = []): Question {
    const taken = subjects.map(({ name }) => {
      const allowance = this.#byName.get(name);
      if (allowance === undefined) return nothing;
      allowance.taken = all.reduce(sumOf, allowance.taken);
      return allowance.taken;
    });
    return { subjects, at: this.#clock.now(), taken };
  }

  /** Redis' answer about each subject of the question. */
  learn({ subjects, at, taken }: Question, answer: readonly Counts[]): void {
    this.#sweep();
    for (const [index, { name, limits }] of subjects.entries()) {
      const counts = answer[index] as Counts;
      this.#byName.set(name, {
        share: shareOf(limits, counts),
        until: at + allowanceMs,
        counts,
        takenBefore: taken[index] as Amounts,
        taken: this.#byName.get(name)?.taken ?? nothing,
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
      const allowance = this.#byName.get(name) as Allowance;
      const { taken, counts } = allowance;
      allowance.taken = sumOf(taken, { requests: 1, tokens, nano });
      const since = sinceAsked(allowance);
      return { ...counts, requests: counts.requests + since.requests, tokens: counts.tokens + since.tokens };
    });
  }

  /** Whether every subject allows one more request with so many tokens and nano-units. */
  has(subjects: readonly AllowanceSubject[], tokens: number, nano: number): boolean {
    const now = this.#clock.now();
    return subjects.every(({ name }) => {
      const allowance = this.#byName.get(name);
      if (allowance === undefined || allowance.until < now) return false;
      const { share } = allowance;
      const since = sinceAsked(allowance);
      return (
        since.requests + 1 <= share.requests && since.tokens + tokens <= share.tokens && since.nano + nano <= share.nano
      );
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

const sumOf = (one: Amounts, other: Amounts): Amounts => ({
  requests: one.requests + other.requests,
  tokens: one.tokens + other.tokens,
  nano: one.nano + other.nano,
});

const sinceAsked = ({ taken, takenBefore }: Allowance): Amounts => ({
  requests: taken.requests - takenBefore.requests,
  tokens: taken.tokens - takenBefore.tokens,
  nano: taken.nano - takenBefore.nano,
});

/** Infinite without a limit. */
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
