/** Limits of callers, counted in Redis over all processes: reserved at admission in one round trip, settled when the generation is over. */
import type { Redis } from "ioredis";
import type { Keyspace } from "#service/keyspace.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { admitScript, renewScript, settleScript } from "./limit-scripts.ts";

/** How long a slot outlives the last sign of its holder: what a process that died held is free again after this. */
export const slotLifeMs = 6_000;
/** About so many slots are prolonged by one call. */
const renewalsMax = 1_000;

const limitNames = ["requestsPerMinute", "tokensPerMinute", "generationsMax", "budgetPerDay", "budgetPerMonth"] as const;
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

/** What an admitted generation holds; it is to be settled exactly once. */
export interface Reservation {
  readonly generation: string;
  readonly keys: readonly string[];
  /** Those of the keys in which it has a slot. */
  readonly slotKeys: readonly string[];
  readonly tokens: number;
  readonly money: number;
  /** Epoch milliseconds of Redis. */
  readonly admittedAt: number;
}

interface Slot {
  /** Of the running set that it is in. */
  readonly key: string;
  readonly generation: string;
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
  | { kind: "admitted"; reservation: Reservation; standings: Standings }
  /** `retryMs`: when there is room, at most a minute from now; of budgets it says nothing. */
  | { kind: "refused"; subject: LimitedSubject; limit: LimitName; retryMs: number; standings: Standings };

/** Every method rejects when Redis does not answer; whether something was counted is unknown then. */
export class LimitCounters {
  readonly #redis: Redis;
  readonly #keyspace: Keyspace;

  /** `redis` is of the purpose `request`. */
  constructor(redis: Redis, keyspace: Keyspace) {
    this.#redis = redis;
    this.#keyspace = keyspace;
  }

  /** One round trip; `subjects` must not be empty. Slots that may have been taken when it rejects are given back as soon as Redis hears of it, or lapse. */
  async admit(generation: string, subjects: readonly LimitedSubject[], { inputTokens, outputTokens, money }: Estimate): Promise<LimitDecision> {
    const keys = subjects.flatMap(({ scope, name }) => this.#keysOf(scope, name));
    const tokens = inputTokens + outputTokens;
    const limits = subjects.flatMap((subject) => limitNames.map((name) => subject.limits[name] ?? ""));
    const slotKeys = subjects
      .filter((subject) => subject.limits.generationsMax !== undefined)
      .map(({ scope, name }) => this.#keyspace.limit(scope, name, "running"));
    const answer = runScript(this.#redis, scripts.admit, keys, [generation, inputTokens, tokens, money, slotLifeMs, ...limits]);
    answer.catch(() => slotKeys.map((key) => this.#redis.zrem(key, generation).catch(() => undefined)));
    const [isAdmitted, place = 0, limit = 0, retryMs = 0, now = 0, ...windows] = (await answer) as number[];
    const standings = {
      requests: tightestOf(subjects.map((subject, index) => standingOf(subject.limits.requestsPerMinute, windows[index * 4], windows[index * 4 + 1]))),
      tokens: tightestOf(subjects.map((subject, index) => standingOf(subject.limits.tokensPerMinute, windows[index * 4 + 2], windows[index * 4 + 3]))),
      now,
    };
    if (isAdmitted === 1) return { kind: "admitted", reservation: { generation, keys, slotKeys, tokens, money, admittedAt: now }, standings };
    return { kind: "refused", subject: subjects[place - 1] as LimitedSubject, limit: limitNames[limit - 1] as LimitName, retryMs, standings };
  }

  /** Gives the slots back, and counts what was used in place of what was reserved. */
  async settle({ generation, keys, tokens, money, admittedAt }: Reservation, used: { tokens: number; money: number }): Promise<void> {
    await runScript(this.#redis, scripts.settle, keys, [generation, admittedAt, used.tokens - tokens, used.money - money]);
  }

  /** Call it every few seconds, well within the life of a slot, with all that is not settled: what leaves `held` before its turn comes is not prolonged. */
  async renew(held: Iterable<Reservation>): Promise<void> {
    let slots: Slot[] = [];
    for (const { generation, slotKeys } of held) {
      for (const key of slotKeys) slots.push({ key, generation });
      if (slots.length < renewalsMax) continue;
      await this.#prolong(slots);
      slots = [];
    }
    if (slots.length > 0) await this.#prolong(slots);
  }

  async #prolong(slots: readonly Slot[]): Promise<void> {
    const keys = [...new Set(slots.map(({ key }) => key))];
    const numbers = new Map(keys.map((key, index) => [key, index + 1]));
    await runScript(this.#redis, scripts.renew, keys, [slotLifeMs, ...slots.flatMap(({ key, generation }) => [numbers.get(key) as number, generation])]);
  }

  #keysOf(scope: string, name: string): string[] {
    return (["window", "running", "budget"] as const).map((what) => this.#keyspace.limit(scope, name, what));
  }
}

const scripts = { admit: scriptOf(admitScript), settle: scriptOf(settleScript), renew: scriptOf(renewScript) };

const standingOf = (limit: number | undefined, used = 0, resetMs = 0): Standing[] =>
  limit === undefined ? [] : [{ limit, remaining: Math.max(0, limit - used), resetMs }];

function tightestOf(standings: Standing[][]): Standing | undefined {
  return standings
    .flat()
    .reduce<Standing | undefined>((least, standing) => (least === undefined || standing.remaining < least.remaining ? standing : least), undefined);
}
