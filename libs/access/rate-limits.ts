/**
 * Rate limits and budgets, counted in Redis over all processes: reserved at admission in one round
 * trip, settled when the generation ends. Calls of one turn of the event loop about the same
 * subjects share a script. Far from its limits, a busy caller is admitted from an allowance without
 * a round trip; Redis then counts the admissions and ends of `gatherMs` together.
 */

import { nanoOf } from "#ledger/money.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { leaseMs } from "#service/lease.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import type { AllowanceSubject, Allowances, Counts, Window } from "./allowances.ts";
import { Batches } from "./batches.ts";
import { batchedCallsMax, forgottenMax, gatherMs, knownMax, renewalsMax, settledMs, untoldMax } from "./bounds.ts";
import { hasLimit, type LimitName, type Limits, limitRows, type limitScopes, limitsCount } from "./limits.ts";
import { admitScript, readScript, renewScript, settleScript } from "./rate-limit-scripts.ts";
import { type KeyRecord, namesModel } from "./record.ts";

export type { LimitName, Limits };

/**
 * A key, a group, an account, or the requests of an account with a tag or for a model, with its
 * limits. Budgets are in units of the catalogue's currency.
 */
export interface LimitedSubject {
  readonly scope: (typeof limitScopes)[number];
  /** The id of a key, the name of a group or an account, or `partNameOf`. */
  readonly name: string;
  readonly limits: Limits;
}

/** The limits that a group of the catalogue sets. */
export interface GroupLimits {
  readonly limits?: Limits;
  readonly keyLimits?: Limits;
  readonly accountLimits?: Limits;
  /** By tag. */
  readonly tagLimits?: Readonly<Record<string, Limits>>;
  /** By a model's id, or by a prefix followed by `*`. Without budgets. */
  readonly modelLimits?: Readonly<Record<string, Limits>>;
}

/** The parts of an account's requests that one request belongs to, among those with limits. */
export interface LimitedParts {
  readonly tags?: readonly string[];
  /** Ids and prefixes, as `modelLimits` has them. */
  readonly models?: readonly string[];
}

/** The name of a tag or a model as a subject; no account has a space in its name. */
export const partNameOf = (account: string | undefined, part: string): string => `${account ?? ""} ${part}`;
export const partIn = (name: string): string => name.slice(name.indexOf(" ") + 1);

/** The tags among these that have limits, in one order. */
export const limitedTagsOf = ({ tagLimits = {} }: GroupLimits, tags: readonly string[]): string[] =>
  [...new Set(tags)].filter((tag) => Object.hasOwn(tagLimits, tag)).sort();

/** The ids and prefixes with limits that a model belongs to. */
export const limitedModelsOf = ({ modelLimits = {} }: GroupLimits, model: string): string[] =>
  Object.keys(modelLimits).filter((name) => namesModel(name, model));

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
export interface Use extends Window {
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
 * The subjects that limit the requests of a key: the key itself, its group, its account, the tags
 * of the request, which are those of the key by default, and its model. Limits of the key come
 * before those of its group.
 */
export function limitedSubjectsOf(
  { id, group: name, account, limits, tags: own = [] }: Pick<KeyRecord, "id" | "group" | "account" | "limits" | "tags">,
  group: GroupLimits | undefined,
  { tags = own, models = [] }: LimitedParts = {},
): LimitedSubject[] {
  if (
    limits === undefined &&
    group?.limits === undefined &&
    group?.keyLimits === undefined &&
    group?.accountLimits === undefined &&
    group?.tagLimits === undefined &&
    group?.modelLimits === undefined
  )
    return [];
  const subjects: LimitedSubject[] = [
    { scope: "key", name: id, limits: { ...group?.keyLimits, ...limits } },
    { scope: "group", name, limits: group?.limits ?? {} },
    ...(account === undefined
      ? []
      : [{ scope: "account" as const, name: account, limits: group?.accountLimits ?? {} }]),
    ...limitedTagsOf(group ?? {}, tags).map((tag) => ({
      scope: "tag" as const,
      name: partNameOf(account, tag),
      limits: group?.tagLimits?.[tag] ?? {},
    })),
    ...models.map((model) => ({
      scope: "model" as const,
      name: partNameOf(account, model),
      limits: group?.modelLimits?.[model] ?? {},
    })),
  ];
  return subjects.filter(({ limits }) => hasLimit(limits));
}

/** The subjects that limit requests, with only these limits. */
export const requestLimitsOf = (subjects: readonly LimitedSubject[]): LimitedSubject[] =>
  subjects.flatMap(({ scope, name, limits: { requestsPerMinute, onLimit, waitMs } }) =>
    requestsPerMinute === undefined
      ? []
      : [{ scope, name, limits: { requestsPerMinute, ...(onLimit && { onLimit }), ...(waitMs && { waitMs }) } }],
  );

/** The subjects that limit tokens or money, with only these limits. */
export const usageLimitsOf = (subjects: readonly LimitedSubject[]): LimitedSubject[] =>
  subjects.flatMap(({ scope, name, limits: { requestsPerMinute: _, generationsMax: __, ...limits } }) =>
    hasLimit(limits) ? [{ scope, name, limits }] : [],
  );

/**
 * Every method rejects when Redis does not answer; it is then unknown whether Redis counted the
 * call.
 */
export class LimitCounters {
  readonly #redis: Redis;
  readonly #keyspace: Keyspace;
  readonly #allowances: Allowances | undefined;
  readonly #argumentsOf = new WeakMap<readonly LimitedSubject[], SubjectArguments>();
  readonly #admissions = new Batches<readonly LimitedSubject[], Reservation, LimitDecision>(
    (subjects, reservations) => this.#decide(subjects, reservations, leaseMs),
    setImmediate,
  );
  /** Before anything else that happens in this turn: see `settle`. */
  readonly #settlements = new Batches<readonly LimitedSubject[], Settlement, undefined>(
    (subjects, settlements) => this.#settle(subjects, settlements),
    queueMicrotask,
  );
  /**
   * Admitted from allowances, by generation; Redis does not know them yet. One that ends before it
   * does needs no lease.
   */
  readonly #taken = new Map<readonly LimitedSubject[], Map<string, Reservation>>();
  /** Far from a limit. */
  readonly #lateSettlements = new Batches<readonly LimitedSubject[], Settlement, undefined>(
    (subjects, settlements) => this.#settle(subjects, settlements),
    (start) => {
      this.#starts.push(start);
      this.#flushSoon();
    },
  );
  /** Each sends late settlements. */
  #starts: (() => void)[] = [];
  #flushTimer: NodeJS.Timeout | undefined;
  /** Generations that Redis confirmed as settled and still remembers. */
  #known: string[] = [];

  /** `redis` has the purpose `request`. Without `allowances` every admission asks Redis. */
  constructor(redis: Redis, keyspace: Keyspace, allowances?: Allowances) {
    this.#redis = redis;
    this.#keyspace = keyspace;
    this.#allowances = allowances;
  }

  /**
   * No round trip if the allowances suffice. Otherwise one, shared with the other admissions of the
   * same array of subjects in this turn of the event loop; needs at least one subject. The caller
   * renews an admitted reservation and settles it. After a rejection Redis may have admitted it, or
   * may still do so: settle it with `neverBegan`.
   */
  admit(reservation: Reservation): Promise<LimitDecision> {
    const { subjects } = reservation;
    const { allowed } = this.#of(subjects);
    const counts = this.#allowances?.take(allowed, reservation.tokens, reservation.nano);
    if (counts === undefined) return this.#admissions.add(subjects, reservation);
    const taken = this.#taken.get(subjects) ?? new Map<string, Reservation>();
    this.#taken.set(subjects, taken.set(reservation.generation, reservation));
    if (taken.size === untoldMax) this.flush();
    else this.#flushSoon();
    return Promise.resolve({ kind: "admitted", standings: standingsOf(subjects, counts, counts[0]?.now ?? 0) });
  }

  #flushSoon(): void {
    this.#flushTimer ??= setTimeout(() => this.flush(), gatherMs);
  }

  /**
   * Tells Redis now what it would hear soon: what has ended first, so that the answer about the
   * others has it.
   */
  flush(): void {
    if (this.#flushTimer === undefined) return;
    clearTimeout(this.#flushTimer);
    this.#flushTimer = undefined;
    const starts = this.#starts;
    this.#starts = [];
    for (const start of starts) start();
    for (const [subjects, taken] of this.#taken) {
      const reservations = [...taken.values()];
      while (reservations.length > 0) void this.#count(subjects, reservations.splice(0, batchedCallsMax));
    }
    this.#taken.clear();
  }

  /**
   * Never rejects: the tokens and the money of a reservation that Redis does not know count when it
   * is renewed or settled. Its request does not: it may have been counted.
   */
  async #count(subjects: readonly LimitedSubject[], reservations: readonly Reservation[]): Promise<void> {
    await this.#decide(subjects, reservations, leaseMs, "count").catch(() =>
      this.#allowances?.lose(this.#of(subjects).allowed),
    );
  }

  /**
   * Counts or refuses a request that uses nothing else; it needs no settling. Needs at least one
   * subject, with no limits but of requests (`requestLimitsOf`).
   */
  countRequest(subjects: readonly LimitedSubject[]): Promise<LimitDecision> {
    return this.#decideOne(reservationOf("", subjects, { inputTokens: 0, outputTokens: 0, nano: 0 }, 0), 0);
  }

  /**
   * Decides like `admit`, but counts and reserves nothing. One round trip; needs at least one
   * subject.
   */
  look(subjects: readonly LimitedSubject[], estimate: Estimate): Promise<LimitDecision> {
    return this.#decideOne(reservationOf("", subjects, estimate, 0), leaseMs, "look");
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

  async #decideOne(reservation: Reservation, lifeMs: number, mode: Mode = "admit"): Promise<LimitDecision> {
    const [decision] = await this.#decide(reservation.subjects, [reservation], lifeMs, mode);
    return decision as LimitDecision;
  }

  async #decide(
    subjects: readonly LimitedSubject[],
    reservations: readonly Reservation[],
    lifeMs: number,
    mode: Mode = "admit",
  ): Promise<LimitDecision[]> {
    if (mode !== "count") this.flush();
    const { keys, allowed, limits } = this.#of(subjects);
    const amounts = mode === "admit" ? reservations.map(({ tokens, nano }) => ({ requests: 1, tokens, nano })) : [];
    const question = mode === "look" ? undefined : this.#allowances?.ask(allowed, amounts);
    const values: (string | number)[] = [lifeMs, mode, ...limits];
    for (const { generation, inputTokens, tokens, nano } of reservations)
      values.push(generation, inputTokens, tokens, nano);
    // A settlement follows the count: one that came after it would make a lease that nobody ends.
    const text = await runScript(this.#redis, scripts.admit, keys, values, mode === "count");
    const answer = (text as string).split(" ").map(Number);
    const size = decisionSize + subjects.length * windowSize;
    const decided = answer.length - subjects.length * stateSize;
    const decisions: LimitDecision[] = [];
    for (let at = 0; at < decided; at += size) decisions.push(decisionOf(subjects, answer.slice(at, at + size)));
    if (question !== undefined && lifeMs > 0)
      this.#allowances?.learn(question, countsIn(subjects, answer.slice(decided - size)));
    return decisions;
  }

  /**
   * Ends the lease and counts what was used. After a rejection, repeat it with the same arguments
   * within `settledMs` of the first call: the generation counts once, however many of the calls
   * Redis ran. Redis gets the command within `gatherMs`; near a limit, or of a caller that is not
   * busy, in the next microtask, so that an answer that is sent later does not overtake it.
   */
  settle({ generation, subjects, receivedAt }: Reservation, used: Used): Promise<void> {
    const isFar = this.#allowances?.has(this.#of(subjects).allowed, used.tokens, used.nano) === true;
    const isNew = this.#taken.get(subjects)?.delete(generation) === true;
    if (!isFar) this.flush();
    return (isFar ? this.#lateSettlements : this.#settlements).add(subjects, { generation, receivedAt, used, isNew });
  }

  async #settle(subjects: readonly LimitedSubject[], settlements: readonly Settlement[]): Promise<undefined[]> {
    const { keys, counted } = this.#of(subjects);
    const forgotten = this.#known.splice(0, forgottenMax);
    const values: (string | number)[] = [settledMs, settlements.length, ...counted];
    for (const { generation, receivedAt, used, isNew } of settlements)
      values.push(generation, used.tokens, used.nano, requestsOf(used, isNew), receivedAt);
    try {
      await runScript(this.#redis, scripts.settle, [this.#keyspace.limitsSettled, ...keys], [...values, ...forgotten]);
      return new Array(settlements.length);
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
    this.flush();
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

  #of(subjects: readonly LimitedSubject[]): SubjectArguments {
    const present = this.#argumentsOf.get(subjects);
    if (present !== undefined) return present;
    const made: SubjectArguments = {
      allowed: subjects.map(({ scope, name, limits }) => ({
        name: `${scope} ${name} ${JSON.stringify(limits)}`,
        limits,
      })),
      keys: subjects.flatMap(({ scope, name }) =>
        (["window", "running", "reserved", "budget"] as const).map((what) => this.#keyspace.limit(scope, name, what)),
      ),
      limits: subjects.flatMap(({ limits }) => limitRows.map((row) => limitValueOf(limits, row))),
      counted: (["tokens", "money", "requests"] as const).flatMap((counter) =>
        subjects.map(({ limits }) => Number(limitsCount(limits, counter))),
      ),
    };
    this.#argumentsOf.set(subjects, made);
    return made;
  }
}

/** The scripts' arguments about subjects. */
interface SubjectArguments {
  allowed: AllowanceSubject[];
  keys: string[];
  /** The value of each limit of each subject. */
  limits: (string | number)[];
  /** For each subject 1 where tokens count, or 0; then the same for money and requests. */
  counted: number[];
}

interface Settlement extends Pick<Reservation, "generation" | "receivedAt"> {
  used: Used;
  /** Redis was not told of its admission. */
  isNew: boolean;
}

/** The requests that its settlement adds. */
const requestsOf = ({ neverBegan = false }: Used, isNew: boolean): number => (neverBegan ? -1 : Number(isNew));

/** How an admission is decided: see `admitScript`. */
type Mode = "admit" | "look" | "count";

/** The numbers that a decision begins with. */
const decisionSize = 6;
/** Further numbers in it for each subject. */
const windowSize = 4;
/** Numbers for each subject after all decisions. */
const stateSize = 2;

/** Reads one generation's part of the answer of `admitScript`. */
function decisionOf(subjects: readonly LimitedSubject[], answer: readonly number[]): LimitDecision {
  const [isAdmitted, subjectNumber = 0, limitNumber = 0, isSpent, retryMs = 0, now = 0] = answer;
  const standings = standingsOf(subjects, windowsIn(subjects, answer), now);
  if (isAdmitted === 1) return { kind: "admitted", standings };
  const subject = subjects[subjectNumber - 1] as LimitedSubject;
  const limit = limitRows[limitNumber - 1]?.name as LimitName;
  return { kind: "refused", subject, limit, isSpent: isSpent === 1, retryMs, standings };
}

const windowsIn = (subjects: readonly LimitedSubject[], answer: readonly number[]): Window[] =>
  subjects.map((_, index) => {
    const at = decisionSize + index * windowSize;
    const [requests = 0, requestsResetMs = 0, tokens = 0, tokensResetMs = 0] = answer.slice(at, at + windowSize);
    return { requests, requestsResetMs, tokens, tokensResetMs };
  });

/** The state of the subjects after the last decision, whose answer this is. */
function countsIn(subjects: readonly LimitedSubject[], answer: readonly number[]): Counts[] {
  const now = answer[decisionSize - 1] as number;
  const states = answer.slice(decisionSize + subjects.length * windowSize);
  return windowsIn(subjects, answer).map((window, index) => {
    const [running = 0, room = 0] = states.slice(index * stateSize);
    return { ...window, running, room, now };
  });
}

const standingsOf = (subjects: readonly LimitedSubject[], windows: readonly Window[], now: number): Standings => ({
  requests: tightestOf(subjects, "requestsPerMinute", windows, "requests"),
  tokens: tightestOf(subjects, "tokensPerMinute", windows, "tokens"),
  now,
});

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

function tightestOf(
  subjects: readonly LimitedSubject[],
  name: LimitName,
  windows: readonly Window[],
  counter: "requests" | "tokens",
): Standing | undefined {
  let tightest: Standing | undefined;
  for (const [index, { limits }] of subjects.entries()) {
    const limit = limits[name];
    const window = windows[index];
    if (limit === undefined || window === undefined) continue;
    const remaining = Math.max(0, limit - window[counter]);
    if (tightest === undefined || remaining < tightest.remaining)
      tightest = { limit, remaining, resetMs: window[`${counter}ResetMs`] };
  }
  return tightest;
}
