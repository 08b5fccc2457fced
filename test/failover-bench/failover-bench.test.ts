/**
 * Failover Bench's sixteen scenarios against the configuration of docs/retries-and-failover.md: a
 * model with a fallback, and nothing else. Streamed and whole, with the scenarios' own times. The
 * table in that document is compared with the verdicts.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { parseCatalogue } from "#catalogue/load.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";
import { answer, startProvider } from "./provider.ts";

const document = readFileSync(join(import.meta.dirname, "..", "..", "docs", "retries-and-failover.md"), "utf8");
const yaml = /## Failover Bench[\s\S]*?```yaml\n([\s\S]*?)```/.exec(document)?.[1] ?? "";
/** The whole outage takes a minute. */
const outage = isLong
  ? { downMs: 60_000, requests: 20, everyMs: 4_000 }
  : { downMs: 6_000, requests: 10, everyMs: 1_200 };

/** The caller's and the provider's view of one request. */
interface Seen {
  outcome: "success" | "error";
  isComplete: boolean;
  model: string | undefined;
  hasUsage: boolean;
  status: number;
  ms: number;
}

type Verdict = "pass" | "partial" | "safe" | "fail";

interface Played {
  seen: Seen;
  /** When the primary was called, in ms since its first call. */
  primary: number[];
  fallbackCalls: number;
  refusedPrefills: number;
}

interface Scenario {
  id: string;
  fallback?: string;
  /** Time for a whole request, in ms; the call is a hang after that. */
  hangMs: number;
  /** Whether each check of the scenario holds, those that are only advice last. */
  required?: (played: Played) => boolean;
  advice?: (played: Played) => boolean;
  /** The right outcome is the provider's error. */
  isError?: true;
}

const within = (times: readonly number[], ms: number) => times.filter((time) => time < ms).length;
const scenarios: readonly Scenario[] = [
  {
    id: "s01",
    hangMs: 20_000,
    required: ({ primary }) => within(primary, 1_500) <= 2,
    advice: ({ primary }) => (primary[1] ?? 0) >= 1_800,
  },
  { id: "s02", hangMs: 40_000, required: ({ primary }) => within(primary, 3_000) <= 4 && primary.length <= 6 },
  { id: "s03", hangMs: 20_000, advice: ({ primary }) => primary.length >= 2 },
  { id: "s04", hangMs: 40_000, required: ({ primary }) => primary.length <= 6 },
  { id: "s05", hangMs: 20_000 },
  {
    id: "s06",
    hangMs: 130_000,
    required: ({ seen }) => seen.ms <= 100_000,
    advice: ({ primary }) => primary.length === 1,
  },
  // The limit of fifteen seconds is one to the first token, of which an answer that is not streamed
  // has none.
  { id: "s07", hangMs: 60_000 },
  { id: "s08", hangMs: 40_000 },
  { id: "s09", hangMs: 70_000, required: ({ seen }) => seen.ms <= 45_000 },
  { id: "s10", hangMs: 30_000 },
  { id: "s11", hangMs: 30_000, required: ({ seen }) => seen.ms <= 8_000, advice: ({ seen }) => seen.hasUsage },
  { id: "s12", hangMs: 20_000, required: ({ primary }) => primary.length === 1 },
  { id: "s13", hangMs: 20_000, required: ({ primary }) => primary.length === 1, isError: true },
  {
    id: "s14",
    fallback: "ok-noprefill",
    hangMs: 40_000,
    required: ({ seen, refusedPrefills }) => seen.outcome === "success" || refusedPrefills === 0,
  },
  {
    id: "s16",
    hangMs: 40_000,
    required: ({ seen, primary }) => seen.model === "s16-fallback" && primary.length <= 6,
    advice: ({ seen }) => seen.hasUsage,
  },
];
const ids = [...scenarios.map(({ id }) => id), "s15"].toSorted();
/** They wait for half a minute, or more. `npm run test:long` plays them too. */
const slow = ["s06", "s07", "s09"];
const modes = ["streamed", "whole"] as const;
type Mode = (typeof modes)[number];

/**
 * The document's catalogue with its two models once for each scenario and mode, at this provider.
 */
function catalogueOf(url: string): string {
  const at = yaml.indexOf("models:\n");
  const head = yaml.slice(0, at).replaceAll(/"https:\/\/[^"]+"/g, `"${url}"`);
  const models = ids.flatMap((id) =>
    modes.map((mode) =>
      yaml
        .slice(at + "models:\n".length)
        .replaceAll("main", `${id}-${mode}`)
        .replaceAll("spare", `${id}-fallback${mode === "whole" ? "-whole" : ""}`)
        .replaceAll("model-a", `${id}-${mode}`)
        .replaceAll("model-b", `${scenarios.find((one) => one.id === id)?.fallback ?? "ok"}-${id}-${mode}`),
    ),
  );
  const filling = ["s08", "s14"].flatMap((id) => [
    `  - { id: ${id}-filling, prices: { inputPerMillion: 1, outputPerMillion: 2 }, fallbacks: [${id}-filled], route: [{ upstream: first, model: ${id}-filling }] }\n`,
    `  - { id: ${id}-filled, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: filling, model: ${id === "s08" ? "ok" : "ok-noprefill"}-${id}-filling }] }\n`,
  ]);
  const upstream = `  filling: { dialect: openai-chat, prefill: true, baseUrl: "${url}" }\n`;
  return `groups: { default: { models: ["*"] } }\n${head}${upstream}models:\n${[...models, ...filling].join("")}`;
}

let provider: Awaited<ReturnType<typeof startProvider>>;
let gateway: Gateway;
before(async () => {
  provider = await startProvider(outage);
  gateway = await startGateway({
    workers: ["chat=64", "chat=64"],
    environment: { PRIMARY_KEY: "one", SECONDARY_KEY: "two" },
    catalogue: catalogueOf(provider.url),
  });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
});

async function ask(model: string, mode: Mode): Promise<Seen> {
  const startedAt = performance.now();
  const response = await gateway.post({
    model,
    messages: [{ role: "user", content: "Explain trust in sixty words." }],
    ...(mode === "streamed" && { stream: true, stream_options: { include_usage: true } }),
  });
  const text = await textOf(response);
  const bodies = (
    mode === "streamed" && response.status === 200 ? [...text.matchAll(/^data: (\{.*)$/gm)] : [[text, text]]
  )
    .map(([, json]) => JSON.parse(json as string))
    .filter((body) => typeof body === "object");
  const content = bodies
    .flatMap(({ choices = [] }) => choices.map(({ delta, message }: never) => (delta ?? message ?? {}) as object))
    .map((message: { content?: string }) => message.content ?? "")
    .join("");
  const isBroken = bodies.some(({ error }) => error !== undefined) || response.status !== 200;
  return {
    outcome: isBroken ? "error" : "success",
    isComplete: content === answer,
    model: bodies.findLast((body) => body.model !== undefined)?.model,
    hasUsage: bodies.some(({ usage }) => usage?.completion_tokens > 0),
    status: response.status,
    ms: performance.now() - startedAt,
  };
}

/** The text, also of a connection that breaks. */
async function textOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const bytes of body ?? []) text += decoder.decode(bytes as Uint8Array, { stream: true });
  } catch {}
  return text;
}

/** As Failover Bench judges. */
function verdictOf({ hangMs, required, advice, isError }: Scenario, played: Played): Verdict {
  const { outcome, isComplete, ms } = played.seen;
  if (ms > hangMs || (outcome === "success" && !isComplete && isError !== true)) return "fail";
  if (required?.(played) === false) return "fail";
  const isRescued = isError === true ? outcome === "error" : outcome === "success";
  if (!isRescued) return isError === true ? "partial" : "safe";
  return advice?.(played) === false ? "partial" : "pass";
}

async function play(scenario: Scenario, mode: Mode): Promise<Verdict> {
  const { id, fallback = "ok" } = scenario;
  const seen = await ask(`${id}-${mode}`, mode);
  const calls = provider.calls(`${id}-${mode}`);
  const fallbackCalls = provider.calls(`${fallback}-${id}-${mode}`);
  const played: Played = {
    seen: { ...seen, model: seen.model?.replace("-whole", "") },
    primary: calls.map(({ at }) => at - (calls[0]?.at ?? 0)),
    fallbackCalls: fallbackCalls.length,
    refusedPrefills: fallbackCalls.filter(({ isRefusedPrefill }) => isRefusedPrefill).length,
  };
  if (id === "s07" && mode === "streamed" && seen.ms > 15_000) return "partial";
  return verdictOf(scenario, played);
}

/**
 * The primary is down for a while: every request is answered, and the primary is used again within
 * half a minute.
 */
async function playOutage(mode: Mode): Promise<Verdict> {
  const all: Seen[] = [];
  for (let place = 0; place < outage.requests; place++) {
    await sleep(Math.max(0, place * outage.everyMs - provider.now()));
    all.push(await ask(`s15-${mode}`, mode));
  }
  if (!all.every(({ outcome, isComplete }) => outcome === "success" && isComplete)) return "fail";
  return all.at(-1)?.model === `s15-${mode}` ? "pass" : "fail";
}

const table = [...document.matchAll(/^\| (S\d\d) [^|]*\|[^|]*\| (\w+) *\| (\w+) *\|/gm)].map(
  ([, id = "", streamed, whole]) => [id.toLowerCase(), { streamed, whole }] as const,
);

test("the configuration in the guide loads", () => {
  const catalogue = parseCatalogue(Buffer.from(`groups: { default: { models: ["*"] } }\n${yaml}`), "catalogue.yaml", {
    PRIMARY_KEY: "one",
    SECONDARY_KEY: "two",
  });
  assert.deepEqual(
    catalogue.models.map(({ id }) => id),
    ["main", "spare"],
  );
});

test("every scenario has its verdict in the guide's table, and passes", { concurrency: true }, async (all) => {
  assert.deepEqual(
    table.map(([id]) => id),
    ids,
  );
  await Promise.all(
    modes.flatMap((mode) =>
      [...scenarios, undefined].map((scenario) =>
        all.test(
          `${scenario?.id ?? "s15"}, ${mode}`,
          { skip: slow.includes(scenario?.id ?? "") && !isLong },
          async () => {
            const verdict = scenario === undefined ? await playOutage(mode) : await play(scenario, mode);
            assert.equal(verdict, "pass");
            assert.equal(Object.fromEntries(table)[scenario?.id ?? "s15"]?.[mode], verdict);
          },
        ),
      ),
    ),
  );
});

test("a fallback with prefill continues a broken answer, or starts it again if it refuses that", async () => {
  for (const id of ["s08", "s14"]) {
    const { outcome, isComplete, model } = await ask(`${id}-filling`, "streamed");
    assert.deepEqual([outcome, isComplete, model], ["success", true, `${id}-filled`]);
    const calls = provider.calls(`${id === "s08" ? "ok" : "ok-noprefill"}-${id}-filling`);
    assert.deepEqual(
      calls.map(({ isRefusedPrefill }) => isRefusedPrefill),
      id === "s08" ? [false] : [true, false],
    );
  }
});
