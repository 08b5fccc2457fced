/** Adding an upstream: vendors to pick from, tests by a worker, and the models that it offers. */
import type { AnswerOf } from "#api/operation.ts";
import type { vendorOperations } from "#api/vendors.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { listedModelOf, readListPrices } from "#catalogue/list-prices.ts";
import { type Entry, plainValueOf, type StoredDocument } from "#catalogue/stored.ts";
import {
  checkedUpstreamOf,
  type OfferedModel,
  type TestedCall,
  type TestOutcome,
  typedCredentialName,
  type UpstreamTest,
  type UpstreamTestResult,
  upstreamTestKind,
} from "#catalogue/upstream-test.ts";
import { vendors } from "#catalogue/vendors.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { readProcessReports, readyWorkerIn } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import { callWorker } from "#service/worker-calls.ts";
import { Fault } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { recordChange } from "../database/change.ts";

export interface UpstreamTestOptions {
  redis: Redis;
  keyspace: Keyspace;
  environment: Environment;
  /** Seals a value for workers. Throws a Fault. */
  seal(name: string, value: string): string;
  /** The entries of both sources. */
  entries(): StoredDocument;
  clock: Clock;
}

interface Tried {
  upstream: Entry;
  value?: string;
  model?: string;
}

const problems: Record<Exclude<TestOutcome, "ok">, string> = {
  "credential-refused":
    "The vendor refuses the credential. Check that it is complete, not revoked, and of this vendor and region.",
  "no-balance": "The credential is good, but its account has no balance or quota left.",
  "no-access": "The credential is good, but may not do this: its plan, region or permissions do not allow it.",
  "not-found": "The address leads nowhere. Check the path of the base URL, and the name of the model.",
  "rate-limited": "The credential is good, but its rate limit is reached at the moment. Try again in a minute.",
  "request-refused":
    "The upstream refuses the request. Its message says why; the dialect or the name of the model may be wrong.",
  "upstream-failed": "The upstream failed by itself. Try again later.",
  unreachable: "Nothing answers at this address. Check host and port, and whether workers may reach it.",
  untrusted:
    "The connection is not secure: the upstream's certificate is not trusted. A certificate authority of your own belongs into `tls.caFile`.",
  timeout: "The upstream did not answer in time.",
  "address-refused": "The address is link-local, as those of clouds' metadata servers are. It is not called.",
  unreadable: "The upstream answers in another form than that of its dialect. Check the base URL and the dialect.",
};

const describedCall = ({ outcome, status, latencyMs, message }: TestedCall) => ({
  outcome,
  status,
  latencyMs,
  message,
  problem: outcome === "ok" ? null : problems[outcome],
});

type Item = AnswerOf<(typeof vendorOperations)["fetchModels"]>["items"][number];

export function upstreamTestHandlers(options: UpstreamTestOptions): Handlers<typeof vendorOperations> {
  return {
    async listVendors() {
      const items = vendors.map(({ keysUrl = null, note = null, placeholders = [], upstream, ...vendor }) => ({
        ...vendor,
        upstream: { ...upstream },
        placeholders: [...placeholders],
        keysUrl,
        note,
      }));
      return { body: { items } };
    },
    async testUpstream({ body }, context) {
      const { list, call } = await run(options, body, context);
      const isOk = call === undefined ? list.outcome === "ok" : call.outcome === "ok";
      return {
        body: {
          isOk,
          list: { ...describedCall(list), models: list.models.length },
          call: call === undefined ? null : { ...describedCall(call), answer: call.answer },
        },
      };
    },
    async fetchModels({ body: { name, ...tried } }, context) {
      const { list } = await run(options, tried, context);
      const targets = name === undefined ? [] : targetsOf(options.entries(), name);
      const baseUrl = String(tried.upstream.baseUrl);
      const items = list.outcome === "ok" ? itemsOf(list.models, targets, baseUrl, options.environment) : [];
      return { body: { ...describedCall(list), items } };
    },
  };
}

/** The models of an upstream's targets in the catalogue. */
function targetsOf(entries: StoredDocument, name: string): string[] {
  const { models } = plainValueOf(entries) as { models: { route?: { upstream: string; model: string }[] }[] };
  const targets = models.flatMap(({ route = [] }) => route.filter(({ upstream }) => upstream === name));
  return [...new Set(targets.map(({ model }) => model))].filter((model) => !model.includes("*"));
}

function itemsOf(
  offered: readonly OfferedModel[],
  targets: readonly string[],
  baseUrl: string,
  environment: Environment,
): Item[] {
  const list = readListPrices();
  const described = ({ name, contextWindow, outputTokensMax }: OfferedModel, state: Item["state"]): Item => {
    const listed = listedModelOf(list, { baseUrl, name, environment });
    return {
      name,
      state,
      contextWindow: contextWindow ?? listed.contextWindow ?? null,
      outputTokensMax: outputTokensMax ?? listed.outputTokensMax ?? null,
      capabilities: [...(listed.capabilities ?? [])],
      prices: listed.prices ?? null,
    };
  };
  const names = new Set(offered.map(({ name }) => name));
  const gone = targets.filter((target) => !names.has(target));
  return [
    ...offered.map((model) => described(model, targets.includes(model.name) ? "known" : "new")),
    ...gone.map((name) => described({ name, contextWindow: null, outputTokensMax: null }, "gone")),
  ];
}

async function run(
  options: UpstreamTestOptions,
  { upstream, value, model }: Tried,
  context: Context,
): Promise<UpstreamTestResult> {
  const { redis, keyspace, environment, seal, clock } = options;
  try {
    checkedUpstreamOf(upstream, environment);
  } catch (error) {
    if (!(error instanceof CatalogueFault)) throw error;
    throw new Fault("invalid", error.message, { members: { faults: error.lines } });
  }
  const now = clock.epoch();
  const worker = readyWorkerIn(await readProcessReports(redis, keyspace, now), now);
  if (worker === undefined)
    throw new Fault("unavailable", "No worker runs, and only workers call upstreams. Start one.");
  await recordChange(context, "testUpstream", {
    subject: `upstream at ${String(upstream.baseUrl)}`,
    after: { model: model ?? null, credential: value === undefined ? (upstream.credential ?? null) : "typed" },
  });
  const request: UpstreamTest = {
    upstream,
    ...(value !== undefined && { sealed: seal(typedCredentialName, value.trim()) }),
    ...(model !== undefined && { model }),
  };
  const call = { kind: upstreamTestKind, request };
  const result = await callWorker<UpstreamTestResult>({ redis, keyspace }, worker, call);
  if (result === undefined) throw new Fault("unavailable", "The worker did not answer in time. Try again.");
  return result;
}
