/**
 * Rate limits and budgets of callers: admits requests by reserving their estimate, and replaces the
 * estimate by the usage record at the end.
 */

import type { ServerResponse } from "node:http";
import type { Logger } from "pino";
import { Allowances } from "#access/allowances.ts";
import type { KeyFollower } from "#access/follow.ts";
import {
  type GroupLimits,
  LimitCounters,
  type LimitDecision,
  type LimitedSubject,
  type LimitName,
  type Limits,
  limitedModelsOf,
  limitedSubjectsOf,
  limitedTagsOf,
  partIn,
  type Reservation,
  requestLimitsOf,
  reservationOf,
  type Standing,
  type Standings,
  type Used,
  usageLimitsOf,
} from "#access/rate-limits.ts";
import { allowsModel, type KeyRecord } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import { profiles } from "#dialects/profiles.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { type Bill, priced } from "#ledger/bill.ts";
import { isFree } from "#ledger/prices.ts";
import { type OperationName, operations } from "#operations/operations.ts";
import type { QueuePlace } from "#relay/admission-queue.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { LiveMap } from "#service/live-map.ts";
import type { Redis } from "#service/redis.ts";
import { recordMsMax, repeatedRecordsMax, unrecordedMax } from "../common/bounds.ts";
import { Refusal, type Result } from "../common/refusal.ts";
import { estimatedUsageOf, type LimitedRequest } from "./estimate.ts";
import { type LimitRefusal, type LimitWaiter, LimitWaits, type LimitWaitsOptions } from "./limit-waits.ts";

export interface RateLimiterOptions extends Omit<LimitWaitsOptions, "weightOf"> {
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "groups" | "currency" | "modelsOf" | "wildcardsOf">;
  keys: Pick<KeyFollower, "latestOf" | "version">;
  events: EventSink<IngressEvents>;
  log: Logger;
}

/** The part of its caller's limits that an admitted generation has reserved. */
export interface LimitsReservation {
  /**
   * Replaces the reservation by what was used; undefined for nothing. Call it once, when the
   * generation is over. Near a limit Redis gets it before whatever the caller gets in a later
   * microtask.
   */
  settle(bill: Bill | undefined): void;
  /** In the place of `settle`: the generation never began, so its request does not count either. */
  cancel(): void;
  /**
   * Counts what the generation has used so far, while it runs. Resolves to the failure with which
   * it must end if a limit on tokens or money is reached, and never rejects.
   */
  charge(bill: Bill): Promise<Failure | undefined>;
}

/** The caller's limits, as headers report them. */
export interface LimitsState {
  headers: Record<string, string>;
}
/** With the other models that the reservation covers. */
export type Reserved = LimitsState & { reservation: LimitsReservation; fallbacks: readonly CatalogueModel[] };

/** A request that gets another's answer waits while its response is open, within its own bound. */
interface ReplayWait {
  response: Pick<ServerResponse, "once" | "off">;
  maxWaitMs: number | undefined;
}

/** The reservation of a request, as far as Redis made one. */
interface Attempt {
  decision: LimitDecision;
  reservation: Reservation;
  fallbacks: readonly CatalogueModel[];
}

/** The use of limits by a generation that is over, on its way to Redis. */
interface PendingRecord {
  reservation: Reservation;
  used: Used;
  since: number;
  attempts: number;
  isUnderWay: boolean;
}

export class RateLimiter {
  readonly #options: RateLimiterOptions;
  readonly #counters: LimitCounters;
  readonly #reserved = new LiveMap<string, Reservation>();
  readonly #pending = new LiveMap<string, PendingRecord>();
  readonly #waits: LimitWaits;
  /** The requests among those that wait that are generations. */
  readonly #waiters = new Map<LimitedRequest, LimitWaiter>();
  /** The catalogue at the last tick, and the version of the keys. */
  #catalogue: ReturnType<RateLimiterOptions["catalogue"]> | undefined;
  #keysVersion = 0;
  readonly #subjects = new WeakMap<KeyRecord, { group: GroupLimits | undefined; subjects: LimitedSubject[] }>();
  /** The same for requests with tags or a model that have limits, by these. */
  readonly #subjectsOfParts = new WeakMap<readonly LimitedSubject[], Map<string, LimitedSubject[]>>();

  constructor(options: RateLimiterOptions) {
    this.#options = options;
    this.#counters = new LimitCounters(options.redis, options.keyspace, new Allowances(options.clock));
    const weightOf = (group: string) => options.catalogue().groups.get(group)?.weight ?? 1;
    this.#waits = new LimitWaits({ ...options, weightOf });
  }

  /**
   * One round trip to Redis, or none for a busy caller far from its limits; where its limits let it
   * wait, one for each turn that it gets. A caller without limits gets undefined. Rejects when
   * Redis does not answer.
   */
  admit(request: LimitedRequest): Promise<Result<Reserved>> | undefined {
    const subjects = this.#subjectsOf(request.request.http.caller, request);
    return subjects.length === 0 ? undefined : this.#admit(request, subjects);
  }

  /** The request waits no longer: it is over, or its caller's own bound has passed. */
  leave(request: LimitedRequest): void {
    const waiter = this.#waiters.get(request);
    if (waiter !== undefined) this.#waits.end(waiter);
  }

  /** Where a request waits for its limits; undefined if it does not. */
  placeOf(request: LimitedRequest): QueuePlace | undefined {
    const waiter = this.#waiters.get(request);
    return waiter && this.#waits.placeOf(waiter);
  }

  /**
   * Counts a request that is answered without a generation of its own; otherwise like `admit`. It
   * waits no longer once its response is closed.
   */
  admitReplay(
    caller: KeyRecord,
    dialect: ConversationDialect,
    wait: ReplayWait,
  ): Promise<Result<LimitsState>> | undefined {
    const subjects = requestLimitsOf(this.#subjectsOf(caller));
    return subjects.length === 0 ? undefined : this.#admitReplay(caller, dialect, { ...wait, subjects });
  }

  async #admitReplay(
    caller: KeyRecord,
    dialect: ConversationDialect,
    { response, maxWaitMs, subjects }: ReplayWait & { subjects: readonly LimitedSubject[] },
  ): Promise<Result<LimitsState>> {
    const ask = async () => {
      const present = requestLimitsOf(this.#subjectsOf(this.#options.keys.latestOf(caller)));
      return { decision: present.length === 0 ? unlimited : await this.#counters.countRequest(present) };
    };
    let decision = this.#refusalBefore(subjects) ?? (await ask()).decision;
    if (decision.kind === "refused") {
      const waiter = { caller, startedAt: this.#options.clock.now(), maxWaitMs, inputTokens: 0 };
      const leave = () => this.#waits.end(waiter);
      response.once("close", leave);
      decision = (await this.#askInTurn(waiter, decision, ask))?.decision ?? decision;
      response.off("close", leave);
    }
    return this.#answerOf(decision, caller, dialect);
  }

  #refusalBefore(subjects: readonly LimitedSubject[]): LimitRefusal | undefined {
    return this.#waits.size === 0 ? undefined : this.#waits.refusalBefore(subjects);
  }

  /**
   * Waits for the request's turn, as long as its limits let it, and asks them again then. Resolves
   * to the last answer; undefined if they were not asked.
   */
  async #askInTurn<Answer extends { decision: LimitDecision }>(
    waiter: LimitWaiter,
    refusal: LimitRefusal,
    ask: () => Promise<Answer>,
  ): Promise<Answer | undefined> {
    let answer: Answer | undefined;
    let decision: LimitDecision = refusal;
    try {
      while (decision.kind === "refused" && (await this.#waits.turn(waiter, decision))) {
        answer = await ask();
        decision = answer.decision;
      }
      return answer;
    } finally {
      this.#waits.end(waiter);
    }
  }

  /**
   * Charges a request that its limits do not refuse, because it is executed already. Undefined for
   * a caller without limits.
   */
  chargeOnly(request: LimitedRequest): LimitsReservation | undefined {
    const subjects = this.#subjectsOf(this.#options.keys.latestOf(request.request.http.caller), request);
    if (subjects.length === 0) return undefined;
    const nothing = { inputTokens: 0, outputTokens: 0, nano: 0 };
    const reservation = reservationOf(request.admitted.id, subjects, nothing, request.facts.receivedAt);
    return this.#reservationOf(request, reservation);
  }

  /**
   * Checks whether every request of this caller would be refused, whatever its body says; counts
   * and reserves nothing. With `mayReplay` the request may get a stored answer, which needs no
   * tokens. Otherwise like `admit`.
   */
  check(
    caller: KeyRecord,
    dialect: ConversationDialect,
    operation: OperationName,
    { mayReplay }: { mayReplay: boolean },
  ): Promise<Result<LimitsState>> | undefined {
    const all = this.#subjectsOf(caller);
    const subjects = mayReplay ? requestLimitsOf(all) : all;
    if (subjects.length === 0) return undefined;
    const catalogue = this.#options.catalogue();
    const models = catalogue.modelsOf(caller.group);
    const isBilled = operations[operation].bills !== "nothing";
    const costs =
      isBilled &&
      models.every(({ id, prices }) => !isFree(prices) || !allowsModel(caller, id)) &&
      !catalogue.wildcardsOf(caller.group).some(({ prices }) => isFree(prices));
    const least = { inputTokens: Number(isBilled), outputTokens: 0, nano: Number(costs) };
    return this.#counters
      .look(subjects, least)
      .then((decision) =>
        decision.kind === "refused" && this.#waits.mayWait(decision)
          ? { headers: limitHeadersOf(dialect, decision.standings) }
          : this.#answerOf(decision, caller, dialect),
      );
  }

  /** Renews the leases of all reservations. Call it every `renewEveryMsOf(leaseMs)`. */
  renew(): void {
    if (this.#reserved.size === 0) return;
    this.#counters
      .renew(this.#reserved.values())
      .catch((error: unknown) => this.#options.log.debug({ err: error }, "leases could not be renewed"));
  }

  /**
   * Lets waiting requests ask their limits again if the catalogue or keys have changed, and sends
   * the usage records again that Redis did not take. Call it about once a second.
   */
  tick(now: number): void {
    const catalogue = this.#options.catalogue();
    const { version } = this.#options.keys;
    const hasChanged = catalogue !== this.#catalogue || version !== this.#keysVersion;
    if (hasChanged && this.#waits.size > 0) this.#waits.askAgain();
    this.#catalogue = catalogue;
    this.#keysVersion = version;
    this.#retryRecords(now);
  }

  #retryRecords(now: number): void {
    if (this.#pending.size === 0 || this.#options.redis.status !== "ready") return;
    let repeated = 0;
    for (const record of this.#pending.values()) {
      if (record.isUnderWay) continue;
      if (repeated++ === repeatedRecordsMax) return;
      if (now - record.since < recordMsMax) void this.#send(record);
      else {
        this.#pending.delete(record.reservation.generation);
        this.#giveUp(record);
      }
    }
  }

  /** Tells Redis at once what was admitted from allowances, and what has ended. */
  flush(): void {
    this.#counters.flush();
  }

  /** Sends the pending usage records once more, as far as Redis answers. */
  async close(): Promise<void> {
    this.flush();
    await Promise.all([...this.#pending.values()].slice(0, repeatedRecordsMax).map((record) => this.#send(record)));
  }

  async #admit(request: LimitedRequest, subjects: readonly LimitedSubject[]): Promise<Result<Reserved>> {
    const { http, endpoint } = request.request;
    const refusal = this.#refusalBefore(subjects);
    let attempt = refusal === undefined ? await this.#attempt(request) : undefined;
    if (attempt === undefined || attempt.decision.kind === "refused") {
      const first = refusal ?? (attempt?.decision as LimitRefusal);
      const waiter: LimitWaiter = {
        caller: http.caller,
        startedAt: request.startedAt,
        maxWaitMs: request.admitted.maxWaitMs,
        inputTokens: estimatedUsageOf(request).inputTokens,
        onWait: (until) => request.awaitLimits(until),
      };
      this.#waiters.set(request, waiter);
      try {
        attempt = (await this.#askInTurn(waiter, first, () => this.#attempt(request))) ?? attempt;
      } finally {
        this.#waiters.delete(request);
      }
      if (attempt === undefined) return this.#answerOf(first, http.caller, endpoint.dialect) as Refusal;
    }
    const { decision, reservation, fallbacks } = attempt;
    const answer = this.#answerOf(decision, http.caller, endpoint.dialect);
    if (answer instanceof Refusal) return answer;
    this.#reserved.set(reservation.generation, reservation);
    return { ...answer, reservation: this.#reservationOf(request, reservation), fallbacks };
  }

  /** Without money, only models that cost nothing may answer. */
  async #attempt(request: LimitedRequest): Promise<Attempt> {
    const { fallbacks } = request;
    const subjects = this.#subjectsOf(this.#options.keys.latestOf(request.request.http.caller), request);
    const own = estimatedNanoOf(request, request.admitted.model);
    const dearest = Math.max(own, ...fallbacks.map((fallback) => estimatedNanoOf(request, fallback)));
    const reserved = await this.#reserve(request, subjects, dearest);
    if (reserved.decision.kind !== "refused" || !isBudget(reserved.decision.limit) || own > 0 || dearest === 0)
      return { ...reserved, fallbacks };
    const free = fallbacks.filter((fallback) => estimatedNanoOf(request, fallback) === 0);
    return { ...(await this.#reserve(request, subjects, 0)), fallbacks: free };
  }

  async #reserve(
    request: LimitedRequest,
    subjects: readonly LimitedSubject[],
    nano: number,
  ): Promise<{ decision: LimitDecision; reservation: Reservation }> {
    const { inputTokens, outputTokens } = estimatedUsageOf(request);
    const reservation = reservationOf(
      // An earlier one, whose outcome is unknown, is being settled.
      request.admissions > 1 ? `${request.admitted.id}-${request.admissions}` : request.admitted.id,
      subjects,
      { inputTokens, outputTokens, nano },
      request.facts.receivedAt,
    );
    if (subjects.length === 0) return { decision: unlimited, reservation };
    const decision = await this.#counters.admit(reservation).catch((error: unknown) => {
      this.#settle(reservation, { tokens: 0, nano: 0, neverBegan: true });
      throw error;
    });
    return { decision, reservation };
  }

  #reservationOf({ request }: LimitedRequest, reservation: Reservation): LimitsReservation {
    let charged: Used = { tokens: 0, nano: 0 };
    let charges = 0;
    /** The usage that is not charged yet. */
    const leftOf = (bill: Bill | undefined): Used => {
      const used = usedOf(bill);
      const left = { tokens: Math.max(0, used.tokens - charged.tokens), nano: Math.max(0, used.nano - charged.nano) };
      charged = { tokens: charged.tokens + left.tokens, nano: charged.nano + left.nano };
      return left;
    };
    return {
      settle: (bill) => this.#settle(reservation, leftOf(bill)),
      cancel: () => this.#settle(reservation, { tokens: 0, nano: 0, neverBegan: true }),
      charge: async (bill) => {
        const left = leftOf(bill);
        if (left.tokens === 0) return undefined;
        const part = { ...reservation, generation: `${reservation.generation}.${++charges}` };
        await this.#record(part, left);
        const answer = await this.#checkUsed(reservation.subjects, request.http.caller, request.endpoint.dialect).catch(
          () => undefined,
        );
        return answer instanceof Refusal ? answer.failure : undefined;
      },
    };
  }

  /**
   * Refuses a running generation whose caller has used up its tokens or its money. Money that is
   * only reserved does not count.
   */
  async #checkUsed(
    subjects: readonly LimitedSubject[],
    caller: KeyRecord,
    dialect: ConversationDialect,
  ): Promise<Result<LimitsState> | undefined> {
    const limited = usageLimitsOf(subjects);
    if (limited.length === 0) return undefined;
    const decision = await this.#counters.look(limited, { inputTokens: 1, outputTokens: 0, nano: 1 });
    const isOver = decision.kind === "refused" && (decision.limit === "tokensPerMinute" || decision.isSpent);
    return isOver ? this.#answerOf(decision, caller, dialect) : undefined;
  }

  #answerOf(decision: LimitDecision, caller: KeyRecord, dialect: ConversationDialect): Result<LimitsState> {
    const headers = limitHeadersOf(dialect, decision.standings);
    if (decision.kind === "admitted") return { headers };
    this.#options.events.emit("limitReached", {
      limit: decision.limit,
      scope: decision.subject.scope,
      keyId: caller.id,
    });
    return new Refusal(limitFailureOf(decision, this.#options.catalogue().currency), headers);
  }

  #settle(reservation: Reservation, used: Used): void {
    void this.#record(reservation, used);
    if (this.#waits.size > 0) this.#waits.wake(reservation.subjects);
  }

  /** Settles once the record was sent, whether or not Redis took it. */
  #record(reservation: Reservation, used: Used): Promise<void> {
    this.#reserved.delete(reservation.generation);
    const record = { reservation, used, since: this.#options.clock.now(), attempts: 0, isUnderWay: false };
    if (this.#pending.size >= unrecordedMax) this.#giveUp(this.#pending.shift() as PendingRecord);
    this.#pending.set(reservation.generation, record);
    return this.#send(record);
  }

  /** Never rejects. */
  async #send(record: PendingRecord): Promise<void> {
    const { reservation, used } = record;
    record.isUnderWay = true;
    record.attempts++;
    try {
      await this.#counters.settle(reservation, used);
      this.#pending.delete(reservation.generation);
      // An earlier attempt whose outcome is unknown may still arrive.
      if (record.attempts === 1) this.#counters.forget(reservation.generation);
    } catch (error) {
      record.isUnderWay = false;
      if (record.attempts === 1)
        this.#options.log.warn(
          { err: error, generation: reservation.generation },
          "Redis did not take a usage record; it is sent again",
        );
    }
  }

  #giveUp({ reservation: { generation }, used }: PendingRecord): void {
    this.#options.log.error({ generation, ...used }, "a usage record was lost: Redis did not take it in time");
  }

  /**
   * The same array while neither the key nor its group changes: its requests share scripts. Without
   * a request, the subjects of all requests of this caller.
   */
  #subjectsOf(caller: KeyRecord, request?: LimitedRequest): readonly LimitedSubject[] {
    const group = this.#options.catalogue().groups.get(caller.group);
    let present = this.#subjects.get(caller);
    if (present === undefined || present.group !== group) {
      present = { group, subjects: limitedSubjectsOf(caller, group) };
      this.#subjects.set(caller, present);
    }
    const { subjects } = present;
    if (request === undefined || (group?.tagLimits === undefined && group?.modelLimits === undefined)) return subjects;
    const tags = limitedTagsOf(group, request.request.labels.tags);
    const models = limitedModelsOf(group, request.admitted.model.id);
    const name = `${tags} ${models}`;
    const byParts = this.#subjectsOfParts.get(subjects) ?? new Map<string, LimitedSubject[]>();
    const ofParts = byParts.get(name) ?? limitedSubjectsOf(caller, group, { tags, models });
    if (byParts.size >= partSetsMax) byParts.clear();
    this.#subjectsOfParts.set(subjects, byParts.set(name, ofParts));
    return ofParts;
  }
}

/** Sets of tags and models of one key whose subjects are kept. */
const partSetsMax = 100;

/**
 * The estimated cost of the request if this model answers: nothing only where nothing can cost,
 * as of a search that nobody asked for.
 */
function estimatedNanoOf(request: LimitedRequest, model: CatalogueModel): number {
  const { http, endpoint } = request.request;
  const usage = estimatedUsageOf(request, model);
  const { receivedAt } = request.facts;
  const { cost, groupPpm, unitPrices } = priced(
    request.admitted.catalogue,
    http.caller.group,
    model,
    usage,
    receivedAt,
  );
  const mayCost = operations[endpoint.operation].bills !== "nothing" && groupPpm * unitPrices.servicePpm > 0;
  return Number(cost) || Number(mayCost && !isFree(model.prices));
}

const usedOf = (bill: Bill | undefined): Used =>
  bill === undefined
    ? { tokens: 0, nano: 0 }
    : { tokens: bill.usage.inputTokens + bill.usage.outputTokens, nano: Number(bill.cost) };

/** Its caller's limits were removed while it waited. */
const unlimited: LimitDecision = {
  kind: "admitted",
  standings: { requests: undefined, tokens: undefined, now: 0 },
};

const whose = { key: "This key", group: "This key's group", account: "This key's account" } as const;

const allowances: Record<Exclude<LimitName, BudgetName>, (limits: Limits) => string> = {
  requestsPerMinute: ({ requestsPerMinute }) => `may make ${requestsPerMinute} requests a minute`,
  tokensPerMinute: ({ tokensPerMinute }) => `may use ${tokensPerMinute} tokens a minute, input and output together`,
  generationsMax: ({ generationsMax }) => `may have ${generationsMax} requests answered at once`,
};

const periods = {
  budgetPerDay: "for this day (UTC)",
  budgetPerWeek: "for this week (UTC)",
  budgetPerMonth: "for this month (UTC)",
  budgetTotal: "in total",
} as const;
type BudgetName = keyof typeof periods;
const isBudget = (limit: LimitName): limit is BudgetName => limit in periods;

function limitFailureOf(
  { subject, limit, isSpent, retryMs }: Extract<LimitDecision, { kind: "refused" }>,
  currency: string,
): Failure {
  const who =
    subject.scope === "tag" || subject.scope === "model"
      ? `The ${subject.scope} ${JSON.stringify(partIn(subject.name))}`
      : whose[subject.scope];
  const seconds = Math.max(1, wholeSecondsOf(retryMs));
  const retry = `try again in ${seconds} s.`;
  if (!isBudget(limit))
    return {
      code: "rate_limited",
      message: `${who} ${allowances[limit](subject.limits)}; ${retry}`,
      retryAfterSeconds: seconds,
    };
  const budget = `budget of ${subject.limits[limit]} ${currency} ${periods[limit]}`;
  if (isSpent) return { code: "budget_exhausted", message: `${who} has spent its ${budget}.` };
  return {
    code: "rate_limited",
    message: `${who} has reserved the rest of its ${budget} for requests that are running; ${retry}`,
    retryAfterSeconds: seconds,
  };
}

const wholeSecondsOf = (ms: number) => Math.ceil(ms / 1_000);

/** Each limit's state, in the headers of the caller's dialect. */
function limitHeadersOf(dialect: ConversationDialect, { requests, tokens, now }: Standings): Record<string, string> {
  const headersOf = (what: "requests" | "tokens", { limit, remaining, resetMs }: Standing) =>
    profiles[dialect].limitHeadersOf({
      what,
      limit,
      remaining,
      resetSeconds: wholeSecondsOf(resetMs),
      resetsAt: wholeSecondsOf(now + resetMs),
    });
  return { ...(requests && headersOf("requests", requests)), ...(tokens && headersOf("tokens", tokens)) };
}
