/**
 * How busy, slow and cheap the targets of routes with a strategy are. Each worker measures its own
 * calls and tells the others once a second; a request asks Redis for nothing. Targets of other
 * routes are not measured.
 */
import { randomUUID } from "node:crypto";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { CallInfo, WorkerEvents } from "#events/worker-events.ts";
import { ppmPerUnit } from "#ledger/money.ts";
import { costOf, unitPricesOf } from "#ledger/prices.ts";
import { type Channel, openChannel } from "#service/channel.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { firstOutputTokens, measureHalfLifeMs, measuresLifeMs, measuringWorkersMax, tellEveryMs } from "../bounds.ts";
import type { Candidate } from "./route.ts";
import { orderBy } from "./strategies.ts";

/** Sums of which the half is gone after a time. */
const sumNames = [
  "answers",
  "failures",
  "streamed",
  "streamedMs",
  "whole",
  "wholeMs",
  "inputTokens",
  "cachedTokens",
  "outputTokens",
] as const;
type Sums = Record<(typeof sumNames)[number], number>;

interface Measure {
  calls: Set<CallInfo>;
  sums: Sums;
  /** When the sums were last reduced. */
  at: number;
}

/** Another worker's targets: calls in flight, and sums in the order of their names. */
interface Heard {
  targets: ReadonlyMap<string, readonly number[]>;
  at: number;
}

/** A request for which targets are compared. */
export interface ComparedRequest {
  isStreamed: boolean;
  /** An estimate. */
  inputTokens: number;
  /** Epoch milliseconds. */
  receivedAt: number;
}

export interface TargetMeasuresDeps {
  redis: Redis;
  /** A shared connection in subscriber mode. */
  subscriber: Redis;
  keyspace: Pick<Keyspace, "targetMeasures">;
  clock: Clock;
  catalogue(): Catalogue;
}

export class TargetMeasures {
  readonly #deps: TargetMeasuresDeps;
  readonly #self = randomUUID();
  #channel: Channel | undefined;
  readonly #measures = new Map<string, Measure>();
  readonly #heard = new Map<string, Heard>();
  #measured: { catalogue: Catalogue; names: ReadonlySet<string> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #hasToldCalls = false;
  readonly subscriber: Subscriber<WorkerEvents> = {
    upstreamCallStarted: ({ call }) => this.#measureOf(call)?.calls.add(call),
    firstContent: ({ attempt: { isStreamed }, call, sinceCallMs }) => {
      const sums = call.resumes ? undefined : this.#measureOf(call)?.sums;
      if (sums === undefined) return;
      sums[isStreamed ? "streamed" : "whole"]++;
      sums[isStreamed ? "streamedMs" : "wholeMs"] += sinceCallMs;
    },
    upstreamCallEnded: ({ call, usage }) => {
      const measure = this.#measureOf(call);
      if (measure === undefined) return;
      measure.calls.delete(call);
      measure.sums.answers++;
      measure.sums.inputTokens += usage?.inputTokens ?? 0;
      measure.sums.cachedTokens += usage?.cachedInputTokens ?? 0;
      measure.sums.outputTokens += usage?.outputTokens ?? firstOutputTokens;
    },
    upstreamCallFailed: ({ call }) => {
      const measure = this.#measureOf(call);
      if (measure === undefined) return;
      measure.calls.delete(call);
      measure.sums.failures++;
    },
  };

  constructor(deps: TargetMeasuresDeps) {
    this.#deps = deps;
  }

  async start(): Promise<void> {
    const { subscriber, keyspace } = this.#deps;
    this.#timer = setInterval(() => this.tell(), tellEveryMs);
    this.#channel = openChannel(subscriber, keyspace.targetMeasures, (message) => this.#hear(message));
    await this.#channel.subscribed.catch(() => undefined);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#channel?.close();
  }

  /** Equal targets of one model by its strategy. */
  ranked(neighbours: readonly Candidate[], request: ComparedRequest): Candidate[] {
    const [strategy] = neighbours.map(({ model }) => model.strategy);
    if (strategy === undefined || strategy === "weights") return [...neighbours];
    const measured = neighbours.map((candidate) => this.#compared(candidate, request));
    return orderBy(strategy, measured, Math.random).map(({ candidate }) => candidate);
  }

  /** Tells the other workers of this one's calls. */
  tell(): void {
    const { redis, clock, keyspace } = this.#deps;
    const now = clock.now();
    for (const [worker, { at }] of this.#heard) if (at + measuresLifeMs < now) this.#heard.delete(worker);
    const targets = [...this.#measures].flatMap(([name, measure]) => {
      reduce(measure, now);
      const { calls, sums } = measure;
      if (calls.size === 0 && sumNames.every((one) => sums[one] < leastSum)) {
        this.#measures.delete(name);
        return [];
      }
      return [[name, calls.size, ...sumNames.map((one) => Math.round(sums[one] * 100) / 100)]];
    });
    // An idle worker says so once.
    if (targets.length === 0 && !this.#hasToldCalls) return;
    this.#hasToldCalls = targets.length > 0;
    redis.publish(keyspace.targetMeasures, JSON.stringify([this.#self, targets])).catch(() => undefined);
  }

  #compared(candidate: Candidate, { isStreamed, inputTokens, receivedAt }: ComparedRequest) {
    const { name, target, model } = candidate;
    const now = this.#deps.clock.now();
    const own = this.#measures.get(name);
    if (own !== undefined) reduce(own, now);
    let callsInFlight = own?.calls.size ?? 0;
    const sums = { ...(own?.sums ?? noSums) };
    for (const { targets, at } of this.#heard.values()) {
      const [calls, ...others] = (at + measuresLifeMs < now ? undefined : targets.get(name)) ?? [];
      if (calls === undefined) continue;
      callsInFlight += calls;
      for (const [index, one] of sumNames.entries()) sums[one] += others[index] ?? 0;
    }
    const answers = sums.answers + sums.failures;
    const [count, ms] = isStreamed ? [sums.streamed, sums.streamedMs] : [sums.whole, sums.wholeMs];
    const cachedShare = sums.inputTokens < 1 ? 0 : sums.cachedTokens / sums.inputTokens;
    const usage = {
      inputTokens: Math.ceil(inputTokens),
      cachedInputTokens: Math.floor(inputTokens * cachedShare),
      cacheWriteTokens: 0,
      outputTokens: Math.ceil(sums.answers < leastSum ? firstOutputTokens : sums.outputTokens / sums.answers),
      reasoningTokens: 0,
    };
    const prices = target.prices ?? model.prices;
    return {
      candidate,
      weight: target.weight ?? 1,
      callsInFlight,
      latencyMs: count < leastSum ? undefined : ms / count,
      latencyTrust: Math.min(1, count),
      failedShare: answers < leastSum ? 0 : sums.failures / answers,
      cost: prices === undefined ? 0n : costOf(unitPricesOf(prices, usage, receivedAt), usage, ppmPerUnit),
    };
  }

  #measureOf({ target }: CallInfo): Measure | undefined {
    if (!this.#names().has(target)) return undefined;
    const now = this.#deps.clock.now();
    const measure = this.#measures.get(target) ?? { calls: new Set<CallInfo>(), sums: { ...noSums }, at: now };
    reduce(measure, now);
    this.#measures.set(target, measure);
    return measure;
  }

  /** The targets of routes with a strategy. */
  #names(): ReadonlySet<string> {
    const catalogue = this.#deps.catalogue();
    if (this.#measured?.catalogue === catalogue) return this.#measured.names;
    const models = [...catalogue.models, ...catalogue.wildcards].filter(({ strategy }) => strategy !== "weights");
    const names = new Set(
      models.flatMap(({ route }) => route.map(({ upstream, model, pattern = model }) => `${upstream}/${pattern}`)),
    );
    this.#measured = { catalogue, names };
    return names;
  }

  #hear(message: Buffer): void {
    try {
      const [worker, targets] = JSON.parse(message.toString()) as [string, [string, ...number[]][]];
      if (worker === this.#self || (this.#heard.size >= measuringWorkersMax && !this.#heard.has(worker))) return;
      const named = targets.map(([name, ...numbers]) => [name, numbers] as const);
      this.#heard.set(worker, { targets: new Map(named), at: this.#deps.clock.now() });
    } catch {
      // Another release may tell it differently.
    }
  }
}

const noSums: Readonly<Sums> = {
  answers: 0,
  failures: 0,
  streamed: 0,
  streamedMs: 0,
  whole: 0,
  wholeMs: 0,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
};
/** A smaller sum is that of an answer of long ago. */
const leastSum = 0.01;

function reduce(measure: Measure, now: number): void {
  const factor = 2 ** (-Math.max(0, now - measure.at) / measureHalfLifeMs);
  for (const name of sumNames) measure.sums[name] *= factor;
  measure.at = now;
}
