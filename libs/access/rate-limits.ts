/** Limits of callers, counted in Redis over all processes: reserved at admission in one round trip, settled when the generation is over. */

import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { admitScript, renewScript, settleScript } from "./rate-limit-scripts.ts";

/** How long a lease outlives the last sign of its holder: what a process that died had reserved is free again after this. */
export const leaseMs = 6_000;
/** How long Redis remembers that a generation is settled: a settlement must not be repeated after this. */
export const settledMs = 3_600_000;
/** About so many leases are prolonged by one call. */
const renewalsMax = 1_000;
/** So many settled generations are forgotten by one call at most, and so many wait for that. */
const forgottenMax = 500;
const knownMax = 100_000;

const limitNames = [
  "requestsPerMinute",
  "tokensPerMinute",
  "generationsMax",
  "budgetPerDay",
  "budgetPerMonth",
] as const;
export type LimitName = (typeof limitNames)[number];

/** What a caller may; a limit that is absent does not exist. Tokens are input and output together, budgets are in the catalogue's currency, days and months in UTC. */
export type Limits = { readonly [Name in LimitName]?: number };

/** Somebody with limits. */
export interface LimitedSubject {
  readonly scope: "key" | "group" | "account";
  /** A key's id, a group's or an account's name. */
  readonly name: string;
  readonly limits: Limits;
}

/** What a generation is thought to take. */
export interface Estimate {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly money: number;
}

/** What a generation reserves once it is admitted. */
export interface Reservation {
  readonly generation: string;
  readonly subjects: readonly LimitedSubject[];
  readonly inputTokens: number;
  /** Input and output. */
  readonly tokens: number;
  readonly money: number;
}

/** What a generation used. */
export interface Used {
  readonly tokens: number;
  readonly money: number;
  /** It was not admitted as far as anybody knows, so that its request does not count either. */
  readonly neverBegan?: boolean;
}

/** How one limit of a minute stands. */
export interface Standing {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of it is there again. */
  readonly resetMs: number;
}

/** Of requests and of tokens that which leaves least, of all subjects; undefined where nobody has such a limit. */
export interface Standings {
  readonly requests: Standing | undefined;
  readonly tokens: Standing | undefined;
  /** Epoch milliseconds of Redis. */
  readonly now: number;
}

export type LimitDecision =
  | { kind: "admitted"; standings: Standings }
  /**
   * `isSpent`: the limit is a budget, and what was used fills it, without what running generations have reserved. `retryMs`: when there is room, at most a minute
   * from now; of a budget that is spent it says nothing.
   */
  | {
      kind: "refused";
      subject: LimitedSubject;
      limit: LimitName;
      isSpent: boolean;
      retryMs: number;
      standings: Standings;
    };

export const reservationOf = (
  generation: string,
  subjects: readonly LimitedSubject[],
  { inputTokens, outputTokens, money }: Estimate,
): Reservation => ({
  generation,
  subjects,
  inputTokens,
  tokens: inputTokens + outputTokens,
  money,
});

/** The limits of requests alone. */
export const requestLimitsOf = (subjects: readonly LimitedSubject[]): LimitedSubject[] =>
  subjects.flatMap(({ scope, name, limits: { requestsPerMinute } }) =>
    requestsPerMinute === undefined ? [] : [{ scope, name, limits: { requestsPerMinute } }],
  );

/** Every method rejects when Redis does not answer; whether something was counted is unknown then. */
export class LimitCounters {
  readonly #redis: Redis;
  readonly #keyspace: Keyspace;
  /** Settled as Redis told, which still remembers them. */
  #known: string[] = [];

  /** `redis` is of the purpose `request`. */
  constructor(redis: Redis, keyspace: Keyspace) {
    this.#redis = redis;
    this.#keyspace = keyspace;
  }

  /**
   * One round trip; there must be a subject. Once it is admitted the reservation is to be renewed and settled. When this rejects it may have been admitted or may
   * yet be: it is to be settled as one that never began.
   */
  admit(reservation: Reservation): Promise<LimitDecision> {
    return this.#decide(reservation, leaseMs);
  }

  /** Counts a request that takes nothing else, or refuses it: there is nothing to settle. Undefined, and nobody is asked, where no requests are limited. */
  countRequest(subjects: readonly LimitedSubject[]): Promise<LimitDecision> | undefined {
    const limited = requestLimitsOf(subjects);
    if (limited.length === 0) return undefined;
    return this.#decide(reservationOf("", limited, { inputTokens: 0, outputTokens: 0, money: 0 }), 0);
  }

  /** Decides as `admit` does, but counts and reserves nothing. One round trip; there must be a subject. */
  look(subjects: readonly LimitedSubject[], estimate: Estimate): Promise<LimitDecision> {
    return this.#decide(reservationOf("", subjects, estimate), leaseMs, false);
  }

  async #decide(
    { generation, subjects, inputTokens, tokens, money }: Reservation,
    lifeMs: number,
    takes = true,
  ): Promise<LimitDecision> {
    const keys = subjects.flatMap((subject) => this.#keysOf(subject));
    const limits = subjects.flatMap((subject) => limitNames.map((name) => subject.limits[name] ?? ""));
    const answer = (await runScript(this.#redis, scripts.admit, keys, [
      generation,
      inputTokens,
      tokens,
      money,
      lifeMs,
      Number(takes),
      ...limits,
    ])) as number[];
    const [isAdmitted, place = 0, limit = 0, isSpent, retryMs = 0, now = 0, ...windows] = answer;
    const standings = {
      requests: tightestOf(
        subjects.map((subject, index) =>
          standingOf(subject.limits.requestsPerMinute, windows[index * 4], windows[index * 4 + 1]),
        ),
      ),
      tokens: tightestOf(
        subjects.map((subject, index) =>
          standingOf(subject.limits.tokensPerMinute, windows[index * 4 + 2], windows[index * 4 + 3]),
        ),
      ),
      now,
    };
    if (isAdmitted === 1) return { kind: "admitted", standings };
    const subject = subjects[place - 1] as LimitedSubject;
    return {
      kind: "refused",
      subject,
      limit: limitNames[limit - 1] as LimitName,
      isSpent: isSpent === 1,
      retryMs,
      standings,
    };
  }

  /**
   * Ends the leases and counts what was used. When it rejects, it is to be repeated with the same arguments, within `settledMs` of the first time: however often it is
   * called and whichever of the calls Redis ran, the generation counts once.
   */
  async settle({ generation, subjects }: Reservation, { tokens, money, neverBegan = false }: Used): Promise<void> {
    const known = this.#known.splice(0, forgottenMax);
    const keys = [this.#keyspace.limitsSettled, ...subjects.flatMap((subject) => this.#keysOf(subject))];
    const counted = [
      ...subjects.map(({ limits }) => Number(countsTokens(limits))),
      ...subjects.map(({ limits }) => Number(countsMoney(limits))),
    ];
    try {
      await runScript(this.#redis, scripts.settle, keys, [
        generation,
        tokens,
        money,
        Number(neverBegan),
        settledMs,
        ...counted,
        ...known,
      ]);
    } catch (error) {
      this.#known.push(...known);
      throw error;
    }
  }

  /** Redis need not remember any more that this generation is settled: no call of `settle` for it can be under way. */
  forget(generation: string): void {
    if (this.#known.length < knownMax) this.#known.push(generation);
  }

  /** Call it every few seconds, well within the life of a lease, with all that is not settled: what leaves `held` before its turn comes is not prolonged. */
  async renew(held: Iterable<Reservation>): Promise<void> {
    let leases: Reservation[] = [];
    let count = 0;
    for (const reservation of held) {
      leases.push(reservation);
      count += reservation.subjects.length;
      if (count < renewalsMax) continue;
      await this.#prolong(leases);
      leases = [];
      count = 0;
    }
    if (leases.length > 0) await this.#prolong(leases);
  }

  async #prolong(leases: readonly Reservation[]): Promise<void> {
    const numbers = new Map<string, number>();
    const keys: string[] = [];
    const values: (string | number)[] = [leaseMs];
    for (const { generation, subjects, money } of leases)
      for (const { scope, name, limits } of subjects) {
        const running = this.#keyspace.limit(scope, name, "running");
        const number = numbers.get(running) ?? numbers.size + 1;
        if (!numbers.has(running)) keys.push(running, this.#keyspace.limit(scope, name, "reserved"));
        numbers.set(running, number);
        values.push(number, generation, countsMoney(limits) ? money : 0);
      }
    await runScript(this.#redis, scripts.renew, keys, values);
  }

  #keysOf({ scope, name }: LimitedSubject): string[] {
    return (["window", "running", "reserved", "budget"] as const).map((what) =>
      this.#keyspace.limit(scope, name, what),
    );
  }
}

const scripts = {
  admit: scriptOf(admitScript, "refuse"),
  settle: scriptOf(settleScript, "run"),
  renew: scriptOf(renewScript, "run"),
};

const countsTokens = ({ tokensPerMinute }: Limits): boolean => tokensPerMinute !== undefined;
const countsMoney = ({ budgetPerDay, budgetPerMonth }: Limits): boolean =>
  budgetPerDay !== undefined || budgetPerMonth !== undefined;

const standingOf = (limit: number | undefined, used = 0, resetMs = 0): Standing[] =>
  limit === undefined ? [] : [{ limit, remaining: Math.max(0, limit - used), resetMs }];

function tightestOf(standings: Standing[][]): Standing | undefined {
  return standings
    .flat()
    .reduce<Standing | undefined>(
      (least, standing) => (least === undefined || standing.remaining < least.remaining ? standing : least),
      undefined,
    );
}
