/** Whose limits a generation falls under, what it is thought to take, and what its caller is told of them. */
import type { Redis } from "ioredis";
import type { Logger } from "pino";
import {
  LimitCounters,
  type LimitDecision,
  type LimitedSubject,
  leaseMs,
  type Reservation,
  requestLimitsOf,
  reservationOf,
  settledMs,
  type Used,
} from "#access/rate-limits.ts";
import { allowsModel, type KeyRecord } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { ConversationDialect, Operation } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import { bytesPerToken, type Usage } from "#dialects/usage.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { IngressMetrics } from "../metrics.ts";
import type { Demand } from "./demand.ts";
import { limitFailureOf, limitHeadersOf } from "./rate-limit-messages.ts";

/** What is thought of as an answer's length when the caller does not bound it. */
const outputTokensOtherwise = 1_000;
/** No answer is thought of as longer, whatever its caller asks for, where the catalogue does not say how long it may be. */
const outputTokensBound = 1_000_000;
/** A form is mostly pictures, which count by themselves. */
const formTokensMax = 1_000;
const renewEveryMs = leaseMs / 3;
/** For how long a settlement that failed is repeated: until Redis may have forgotten whether it landed. */
const settleMsMax = settledMs / 2;
/** Settlements that have not landed, at most, and how many of them are repeated at once. */
const unsettledMax = 100_000;
const repeatedMax = 1_000;

export interface CallerLimitsOptions {
  /** Of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "groups" | "currency" | "models" | "modelsOf">;
  metrics: Pick<IngressMetrics, "limitRefusals">;
  log: Logger;
}

/** What is asked for, as far as it is limited. */
export interface LimitedRequest extends Demand {
  id: string;
  caller: KeyRecord;
  dialect: ConversationDialect;
  operation: Operation;
  model: CatalogueModel;
  bodyBytes: number;
}

/** What an answer took, by the prices of the model that answered. */
export type Taken = { kind: "used"; usage: Usage; model: string } | { kind: "nothing" };

/** An admitted generation's part in its caller's limits. */
export interface LimitsHold {
  /** Call it once, when the generation is over. */
  settle(taken: Taken): void;
}

interface LimitsRefusal {
  kind: "refused";
  headers: Record<string, string>;
  failure: Failure;
}
export type LimitsAnswer = { kind: "admitted"; headers: Record<string, string>; hold: LimitsHold } | LimitsRefusal;
export type ReplayAnswer = { kind: "admitted"; headers: Record<string, string> } | LimitsRefusal;

/** What is yet to land in Redis of a generation that is over. */
interface Settlement {
  reservation: Reservation;
  used: Used;
  since: number;
  attempts: number;
  isUnderWay: boolean;
}

export class RateLimiter {
  readonly #options: CallerLimitsOptions;
  readonly #counters: LimitCounters;
  readonly #held = new LiveMap<string, Reservation>();
  readonly #unsettled = new LiveMap<string, Settlement>();
  readonly #now = () => performance.now();
  #renewedAt = 0;

  constructor(options: CallerLimitsOptions) {
    this.#options = options;
    this.#counters = new LimitCounters(options.redis, options.keyspace);
  }

  /** One round trip to Redis; undefined, and nobody is asked, where nothing is limited. Rejects when Redis does not answer. */
  admit(request: LimitedRequest): Promise<LimitsAnswer> | undefined {
    const subjects = this.#subjectsOf(request.caller);
    return subjects.length === 0 ? undefined : this.#admit(request, subjects);
  }

  /** Counts a request that is answered without a generation. Otherwise as `admit`. */
  admitReplay(caller: KeyRecord, dialect: ConversationDialect): Promise<ReplayAnswer> | undefined {
    return this.#counters.countRequest(this.#subjectsOf(caller))?.then((decision) => this.#answerOf(decision, dialect));
  }

  /**
   * Would any request of this caller be refused, whatever its body says? Counts and reserves nothing. One that `mayReplay` may get an answer without a
   * generation. Otherwise as `admit`.
   */
  look(
    caller: KeyRecord,
    dialect: ConversationDialect,
    operation: Operation,
    mayReplay: boolean,
  ): Promise<ReplayAnswer> | undefined {
    const all = this.#subjectsOf(caller);
    const subjects = mayReplay ? requestLimitsOf(all) : all;
    if (subjects.length === 0) return undefined;
    const models = this.#options.catalogue().modelsOf(caller.group);
    const costs =
      operation !== "token-count" &&
      models.every(({ id, prices }) => prices.inputPerMillion > 0 || !allowsModel(caller, id));
    const least = { inputTokens: operation === "token-count" ? 0 : 1, outputTokens: 0, money: Number(costs) };
    return this.#counters.look(subjects, least).then((decision) => this.#answerOf(decision, dialect));
  }

  /** Call it every second or so: what is held stays held, and what could not be settled is tried again. */
  tick(now: number): void {
    this.#repeat(now);
    if (this.#held.size === 0 || now - this.#renewedAt < renewEveryMs) return;
    this.#renewedAt = now;
    this.#counters
      .renew(this.#held.values())
      .catch((error: unknown) => this.#options.log.debug({ err: error }, "leases could not be renewed"));
  }

  /** Settles what is not settled, as far as Redis answers. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#unsettled.values()].slice(0, repeatedMax).map((settlement) => this.#attempt(settlement)),
    );
  }

  async #admit(request: LimitedRequest, subjects: LimitedSubject[]): Promise<LimitsAnswer> {
    const { dialect, model } = request;
    const { inputTokens, outputTokens } = tokensOf(request);
    const money = moneyOf(model, { inputTokens, outputTokens, cachedInputTokens: 0 });
    const reservation = reservationOf(request.id, subjects, { inputTokens, outputTokens, money });
    const decision = await this.#counters.admit(reservation).catch((error: unknown) => {
      this.#settle(reservation, { tokens: 0, money: 0, neverBegan: true });
      throw error;
    });
    const answer = this.#answerOf(decision, dialect);
    if (answer.kind === "refused") return answer;
    this.#held.set(reservation.generation, reservation);
    return {
      ...answer,
      hold: { settle: (taken) => this.#settle(reservation, usedOf(this.#billedOf(model, taken), taken)) },
    };
  }

  #answerOf(decision: LimitDecision, dialect: ConversationDialect): ReplayAnswer {
    const headers = limitHeadersOf(dialect, decision.standings);
    if (decision.kind === "admitted") return { kind: "admitted", headers };
    this.#options.metrics.limitRefusals.inc({ limit: decision.limit, scope: decision.subject.scope });
    return { kind: "refused", headers, failure: limitFailureOf(decision, this.#options.catalogue().currency) };
  }

  #billedOf(model: CatalogueModel, taken: Taken): CatalogueModel {
    return taken.kind === "used"
      ? (this.#options.catalogue().models.find(({ id }) => id === taken.model) ?? model)
      : model;
  }

  #settle(reservation: Reservation, used: Used): void {
    this.#held.delete(reservation.generation);
    const settlement: Settlement = { reservation, used, since: this.#now(), attempts: 0, isUnderWay: false };
    if (this.#unsettled.size >= unsettledMax) this.#giveUp(this.#unsettled.shift() as Settlement);
    this.#unsettled.set(reservation.generation, settlement);
    void this.#attempt(settlement);
  }

  /** Never rejects. */
  async #attempt(settlement: Settlement): Promise<void> {
    const { reservation, used } = settlement;
    settlement.isUnderWay = true;
    settlement.attempts++;
    try {
      await this.#counters.settle(reservation, used);
      this.#unsettled.delete(reservation.generation);
      // An earlier attempt whose outcome is unknown may yet arrive.
      if (settlement.attempts === 1) this.#counters.forget(reservation.generation);
    } catch (error) {
      settlement.isUnderWay = false;
      if (settlement.attempts === 1)
        this.#options.log.warn(
          { err: error, generation: reservation.generation },
          "a generation could not be settled yet",
        );
    }
  }

  #repeat(now: number): void {
    if (this.#unsettled.size === 0 || this.#options.redis.status !== "ready") return;
    let repeated = 0;
    for (const settlement of this.#unsettled.values()) {
      if (settlement.isUnderWay) continue;
      if (repeated++ === repeatedMax) return;
      if (now - settlement.since < settleMsMax) void this.#attempt(settlement);
      else {
        this.#unsettled.delete(settlement.reservation.generation);
        this.#giveUp(settlement);
      }
    }
  }

  #giveUp({ reservation: { generation }, used }: Settlement): void {
    this.#options.log.error({ generation, ...used }, "a generation was not settled: Redis did not take it in time");
  }

  #subjectsOf({ id, group: name, account, limits }: KeyRecord): LimitedSubject[] {
    const group = this.#options.catalogue().groups.get(name);
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
}

/** About what is asked for. Only what bears a price: to count tokens costs none. */
export function tokensOf({ operation, model, bodyBytes, ...demand }: LimitedRequest): {
  inputTokens: number;
  outputTokens: number;
} {
  if (operation === "token-count") return { inputTokens: 0, outputTokens: 0 };
  const bytesMax = operation === "image-edit" ? formTokensMax * bytesPerToken : Number.POSITIVE_INFINITY;
  const inputTokens = Math.ceil(Math.min(bodyBytes, bytesMax) / bytesPerToken) + demand.attachedTokens;
  const eachMax = model.outputTokensMax ?? model.contextWindow ?? outputTokensBound;
  const each = Math.min(demand.outputTokensMax ?? demand.mediaTokens ?? outputTokensOtherwise, eachMax);
  return {
    inputTokens: Math.min(inputTokens, model.contextWindow ?? Number.POSITIVE_INFINITY),
    outputTokens: operation === "embedding" ? 0 : demand.choices * each,
  };
}

function moneyOf(
  { prices }: CatalogueModel,
  used: Pick<Usage, "inputTokens" | "cachedInputTokens" | "outputTokens">,
): number {
  const { inputTokens, cachedInputTokens, outputTokens } = used;
  const cached = Math.min(cachedInputTokens, inputTokens);
  return (
    ((inputTokens - cached) * prices.inputPerMillion +
      cached * prices.cachedInputPerMillion +
      outputTokens * prices.outputPerMillion) /
    1_000_000
  );
}

const usedOf = (model: CatalogueModel, taken: Taken): Used =>
  taken.kind === "nothing"
    ? { tokens: 0, money: 0 }
    : { tokens: taken.usage.inputTokens + taken.usage.outputTokens, money: moneyOf(model, taken.usage) };
