/**
 * Rate limits and budgets, counted in Redis over all processes: reserved at admission in one round
 * trip, settled when the generation ends.
 */

import { nanoOf } from "#ledger/money.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { leaseMs } from "#service/lease.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { forgottenMax, knownMax, renewalsMax, settledMs } from "./bounds.ts";
import { type LimitName, type Limits, limitRows, limitsCount } from "./limits.ts";
import { admitScript, readScript, renewScript, settleScript } from "./rate-limit-scripts.ts";
import type { KeyRecord } from "./record.ts";

export type { LimitName, Limits };

/** A key, group or account with its limits. Budgets are in units of the catalogue's currency. */
export interface LimitedSubject {
  readonly scope: "key" | "group" | "account";
  /** The id of a key, the name of a group or an account. */
  readonly name: string;
  readonly limits: Limits;
}

/** The limits that a group of the catalogue sets. */
interface GroupLimits {
  readonly limits?: Limits;
  readonly keyLimits?: Limits;
  readonly accountLimits?: Limits;
}

/** The expected use of a generation. */
export interface Estimate {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Whole nano-units. */
  readonly nano: number;
}

/** The reservation of an admitted generation. */
export interface Reservation {
  readonly generation: string;
  readonly subjects: readonly LimitedSubject[];
  readonly inputTokens: number;
  /** Input and output. */
  readonly tokens: number;
  readonly nano: number;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/** The usage of a generation. */
export interface Used {
  readonly tokens: number;
  readonly nano: number;
  /** No admission is known, so its request does not count either. */
  readonly neverBegan?: boolean;
}

/** The state of one limit per minute. */
export interface Standing {
  readonly limit: number;
  readonly remaining: number;
  /** Until the whole limit is available again. */
  readonly resetMs: number;
}

/**
 * The tightest request limit and the tightest token limit over all subjects; undefined without such
 * a limit.
 */
export interface Standings {
  readonly requests: Standing | undefined;
  readonly tokens: Standing | undefined;
  /** Redis' time in epoch milliseconds. */
  readonly now: number;
}

/** The current use of a subject, without its budgets. */
export interface Use {
  readonly requests: number;
  /** Until none of the requests counts. */
  readonly requestsResetMs: number;
  readonly tokens: number;
  readonly tokensResetMs: number;
  readonly running: number;
  /** Nano-units that running generations reserve. */
  readonly reserved: bigint;
}

export type LimitDecision =
  | { kind: "admitted"; standings: Standings }
  | {
      kind: "refused";
      subject: LimitedSubject;
      limit: LimitName;
      /**
       * The limit is a budget, and money already spent fills it, without the reservations of
       * running generations.
       */
      isSpent: boolean;
      /**
       * When a retry can succeed, at most a minute from now. Without meaning for a spent budget.
       */
      retryMs: number;
      standings: Standings;
    };

export const reservationOf = (
  generation: string,
  subjects: readonly LimitedSubject[],
  { inputTokens, outputTokens, nano }: Estimate,
  receivedAt: number,
): Reservation => ({
  generation,
  subjects,
  inputTokens,
  tokens: inputTokens + outputTokens,
  nano,
  receivedAt,
});

/**
 * The subjects that limit the requests of a key: the key itself, its group and its account. Limits
 * of the key come before those of its group.
 */
export function limitedSubjectsOf(
  { id, group: name, account, limits }: Pick<KeyRecord, "id" | "group" | "account" | "limits">,
  group: GroupLimits | undefined,
): LimitedSubject[] {
  if (
    limits === undefined &&
    group?.limits === undefined &&
    group?.keyLimits === undefined &&
    group?.accountLimits === undefined
  )
    return [];
  const subjects: LimitedSubject[] = [
    { scope: "key", name: id, limits: { ...group?.keyLimits, ...limits } },
    { scope: "group", name, limits: group?.limits ?? {} },
    ...(account === undefined
      ? []
      : [{ scope: "account" as const, name: account, limits: group?.accountLimits ?? {} }]),
  ];
  return subjects.filter((subject) => Object.keys(subject.limits).length > 0);
}

/** The subjects that limit requests, with only these limits. */
export const requestLimitsOf = (subjects: readonly LimitedSubject[]): LimitedSubject[] =>
  subjects.flatMap(({ scope, name, limits: { requestsPerMinute } }) =>
    requestsPerMinute === undefined ? [] : [{ scope, name, limits: { requestsPerMinute } }],
  );

/** The subjects that limit tokens or money, with only these limits. */
export const usageLimitsOf = (subjects: readonly LimitedSubject[]): LimitedSubject[] =>
  subjects.flatMap(({ scope, name, limits: { requestsPerMinute: _, generationsMax: __, ...limits } }) =>
    Object.keys(limits).length === 0 ? [] : [{ scope, name, limits }],
  );

/**
 * Every method rejects when Redis does not answer; it is then unknown whether Redis counted the
 * call.
 */
export class LimitCounters {
  readonly #redis: Redis;
  readonly #keyspace: Keyspace;
  /** Generations that Redis confirmed as settled and still remembers. */
  #known: string[] = [];

  /** `redis` has the purpose `request`. */
  constructor(redis: Redis, keyspace: Keyspace) {
    this.#redis = redis;
    this.#keyspace = keyspace;
  }

  /**
   * One round trip; needs at least one subject. The caller renews an admitted reservation and
   * settles it. After a rejection Redis may have admitted it, or may still do so: settle it with
   * `neverBegan`.
   */
  admit(reservation: Reservation): Promise<LimitDecision> {
    return this.#decide(reservation, leaseMs);
  }

  /**
   * Counts or refuses a request that uses nothing else; it needs no settling. Undefined, without a
   * round trip, when no subject limits requests.
   */
  countRequest(subjects: readonly LimitedSubject[]): Promise<LimitDecision> | undefined {
    const limited = requestLimitsOf(subjects);
    if (limited.length === 0) return undefined;
    return this.#decide(reservationOf("", limited, { inputTokens: 0, outputTokens: 0, nano: 0 }, 0), 0);
  }

  /**
   * Decides like `admit`, but counts and reserves nothing. One round trip; needs at least one
   * subject.
   */
  look(subjects: readonly LimitedSubject[], estimate: Estimate): Promise<LimitDecision> {
    return this.#decide(reservationOf("", subjects, estimate, 0), leaseMs, false);
  }

  /** In the order of `subjects`; one round trip. Counts nothing. */
  async read(subjects: readonly Pick<LimitedSubject, "scope" | "name">[]): Promise<Use[]> {
    const keys = subjects.flatMap(({ scope, name }) =>
      (["window", "running", "reserved"] as const).map((what) => this.#keyspace.limit(scope, name, what)),
    );
    const answer = (await runScript(this.#redis, scripts.read, keys, [])) as (number | string)[];
    return subjects.map((_, index) => {
      const [requests, requestsResetMs, tokens, tokensResetMs, running, reserved] = answer.slice(index * 6);
      return {
        requests: Number(requests),
        requestsResetMs: Number(requestsResetMs),
        tokens: Number(tokens),
        tokensResetMs: Number(tokensResetMs),
        running: Number(running),
        reserved: BigInt(reserved ?? 0),
      };
    });
  }

  async #decide(
    { generation, subjects, inputTokens, tokens, nano }: Reservation,
    lifeMs: number,
    counts = true,
  ): Promise<LimitDecision> {
    const keys = subjects.flatMap((subject) => this.#keysOf(subject));
    const values = subjects.flatMap(({ limits }) => limitRows.map((row) => limitValueOf(limits, row)));
    const fixed = [generation, inputTokens, tokens, nano, lifeMs, Number(counts)];
    const answer = (await runScript(this.#redis, scripts.admit, keys, [...fixed, ...values])) as number[];
    const [isAdmitted, subjectNumber = 0, limitNumber = 0, isSpent, retryMs = 0, now = 0, ...windows] = answer;
    const standings = {
      requests: tightestOf(subjects, "requestsPerMinute", windows, 0),
      tokens: tightestOf(subjects, "tokensPerMinute", windows, 2),
      now,
    };
    if (isAdmitted === 1) return { kind: "admitted", standings };
    const subject = subjects[subjectNumber - 1] as LimitedSubject;
    const limit = limitRows[limitNumber - 1]?.name as LimitName;
    return { kind: "refused", subject, limit, isSpent: isSpent === 1, retryMs, standings };
  }

  /**
   * Ends the leases and counts what was used. After a rejection, repeat it with the same arguments
   * within `settledMs` of the first call: the generation counts once, however many of the calls
   * Redis ran.
   */
  async settle(
    { generation, subjects, receivedAt }: Reservation,
    { tokens, nano, neverBegan = false }: Used,
  ): Promise<void> {
    const forgotten = this.#known.splice(0, forgottenMax);
    const keys = [this.#keyspace.limitsSettled, ...subjects.flatMap((subject) => this.#keysOf(subject))];
    const counted = (["tokens", "money"] as const).flatMap((counter) =>
      subjects.map(({ limits }) => Number(limitsCount(limits, counter))),
    );
    try {
      await runScript(this.#redis, scripts.settle, keys, [
        generation,
        tokens,
        nano,
        Number(neverBegan),
        settledMs,
        receivedAt,
        ...counted,
        ...forgotten,
      ]);
    } catch (error) {
      this.#known.push(...forgotten);
      throw error;
    }
  }

  /**
   * Lets Redis forget that this generation is settled. No call of `settle` for it may be running.
   */
  forget(generation: string): void {
    if (this.#known.length < knownMax) this.#known.push(generation);
  }

  /**
   * Call it every few seconds, well within `leaseMs`, with every reservation that is not settled. A
   * reservation that leaves the iterable before its turn is not renewed.
   */
  async renew(reservations: Iterable<Reservation>): Promise<void> {
    let leases: Reservation[] = [];
    let count = 0;
    for (const reservation of reservations) {
      leases.push(reservation);
      count += reservation.subjects.length;
      if (count < renewalsMax) continue;
      await this.#renewSome(leases);
      leases = [];
      count = 0;
    }
    if (leases.length > 0) await this.#renewSome(leases);
  }

  async #renewSome(leases: readonly Reservation[]): Promise<void> {
    const numbers = new Map<string, number>();
    const keys: string[] = [];
    const values: (string | number)[] = [leaseMs];
    for (const { generation, subjects, nano } of leases)
      for (const { scope, name, limits } of subjects) {
        const running = this.#keyspace.limit(scope, name, "running");
        const number = numbers.get(running) ?? numbers.size + 1;
        if (!numbers.has(running)) keys.push(running, this.#keyspace.limit(scope, name, "reserved"));
        numbers.set(running, number);
        values.push(number, generation, limitsCount(limits, "money") ? nano : 0);
      }
    await runScript(this.#redis, scripts.renew, keys, values);
  }

  #keysOf({ scope, name }: LimitedSubject): string[] {
    return (["window", "running", "reserved", "budget"] as const).map((what) =>
      this.#keyspace.limit(scope, name, what),
    );
  }
}

/** A limit as the scripts expect it: money in nano-units, "" for none. */
const limitValueOf = (limits: Limits, { name, counter }: (typeof limitRows)[number]): number | string => {
  const limit = limits[name];
  if (limit === undefined) return "";
  return counter === "money" ? nanoOf(limit) : limit;
};

const scripts = {
  admit: scriptOf(admitScript, "refuse"),
  settle: scriptOf(settleScript, "run"),
  renew: scriptOf(renewScript, "run"),
  read: scriptOf(readScript, "run"),
};

/**
 * `windows` has four numbers for each subject; those of this limit begin at `offset`: the count,
 * and the milliseconds until it is 0.
 */
function tightestOf(
  subjects: readonly LimitedSubject[],
  name: LimitName,
  windows: readonly number[],
  offset: number,
): Standing | undefined {
  return subjects
    .flatMap(({ limits: { [name]: limit } }, index): Standing[] => {
      const [used = 0, resetMs = 0] = windows.slice(index * 4 + offset);
      return limit === undefined ? [] : [{ limit, remaining: Math.max(0, limit - used), resetMs }];
    })
    .reduce<Standing | undefined>(
      (tightest, standing) => (tightest === undefined || standing.remaining < tightest.remaining ? standing : tightest),
      undefined,
    );
}
