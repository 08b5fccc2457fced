/**
 * Tests of an upstream before it is in the catalogue. Control asks a worker, because only workers
 * have credentials and reach vendors: a message on pub/sub to one of them, whose answer is a key.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { systemClock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import type { CatalogueUpstream } from "./catalogue.ts";
import type { Environment } from "./environment.ts";
import { parseCatalogue } from "./load.ts";
import { type Entry, emptyDocument } from "./stored.ts";

/** How long a worker has for its answer: more than its own limits for two calls. */
const answerMsMax = 55_000;
const lookEveryMs = 50;
const answerLifeMs = 10_000;

/** The name under which a typed credential is sealed for its test. */
export const typedCredentialName = "typed";

export interface UpstreamTest {
  upstream: Entry;
  /** A credential that is not stored, sealed. Without it, the upstream names its own. */
  sealed?: string;
  /** The vendor's name of a model to call. Without it, only the free list of models is read. */
  model?: string;
}

export const testOutcomes = [
  "ok",
  "credential-refused",
  "no-balance",
  "no-access",
  "not-found",
  "rate-limited",
  "request-refused",
  "upstream-failed",
  "unreachable",
  "untrusted",
  "timeout",
  "address-refused",
  "unreadable",
] as const;
export type TestOutcome = (typeof testOutcomes)[number];

/** One call of a test. Texts of the vendor are cut, and never contain the credential. */
export interface TestedCall {
  outcome: TestOutcome;
  status: number | null;
  latencyMs: number;
  /** The vendor's words, or those of the network. */
  message: string | null;
}

/** A model as its vendor lists it. */
export interface OfferedModel {
  name: string;
  contextWindow: number | null;
  outputTokensMax: number | null;
}

export interface UpstreamTestResult {
  list: TestedCall & { models: OfferedModel[] };
  /** The call of a model; undefined without one. */
  call?: TestedCall & { answer: string | null };
}

const skeleton = Buffer.from('{ "groups": { "any": { "models": ["*"] } }, "upstreams": {}, "models": [] }');

/**
 * The upstream of a test, checked like one of the catalogue; undefined if it is not offered here.
 * Throws CatalogueFault.
 */
export function checkedUpstreamOf(upstream: Entry, environment: Environment): CatalogueUpstream | undefined {
  const stored = { number: 0, sha256: "", document: { ...emptyDocument, upstreams: { tested: upstream } } };
  return parseCatalogue(skeleton, "the upstream", environment, stored).upstreams.get("tested");
}

interface Sent {
  id: string;
  worker: string;
  test: UpstreamTest;
}

/** Undefined if the worker does not answer in time. Rejects while Redis is away. */
export async function askWorker(
  { redis, keyspace }: { redis: Redis; keyspace: Keyspace },
  worker: string,
  test: UpstreamTest,
): Promise<UpstreamTestResult | undefined> {
  const sent: Sent = { id: randomUUID(), worker, test };
  const until = systemClock.now() + answerMsMax;
  await redis.publish(keyspace.upstreamTests, JSON.stringify(sent));
  while (systemClock.now() < until) {
    const text = await redis.get(keyspace.upstreamTestAnswer(sent.id));
    if (text !== null) return JSON.parse(text) as UpstreamTestResult;
    await delay(lookEveryMs);
  }
  return undefined;
}

export interface TestListenerOptions {
  redis: Redis;
  /**
   * A shared connection in subscriber mode. The caller closes both connections, after the listener.
   */
  subscriber: Redis;
  keyspace: Keyspace;
  /** The name of this worker. */
  self: string;
  run(test: UpstreamTest): Promise<UpstreamTestResult>;
}

/** Resolves when the worker listens, to what ends it. */
export async function listenForTests(options: TestListenerOptions): Promise<() => void> {
  const { redis, subscriber, keyspace, self, run } = options;
  const channel = Buffer.from(keyspace.upstreamTests);
  const onMessage = (from: Buffer, message: Buffer) => {
    if (!from.equals(channel)) return;
    const { id, worker, test } = JSON.parse(message.toString()) as Sent;
    if (worker === self) answer(id, test).catch(() => undefined);
  };
  const answer = async (id: string, test: UpstreamTest) =>
    redis.set(keyspace.upstreamTestAnswer(id), JSON.stringify(await run(test)), "PX", answerLifeMs);
  subscriber.on("messageBuffer", onMessage);
  await subscriber.subscribe(keyspace.upstreamTests);
  return () => {
    subscriber.off("messageBuffer", onMessage);
    subscriber.unsubscribe(keyspace.upstreamTests).catch(() => undefined);
  };
}
