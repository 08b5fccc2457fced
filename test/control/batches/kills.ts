/**
 * Runs a batch while processes are killed at random moments: SIGKILL for the gateway's roles and
 * Redis, SIGQUIT for Postgres, which then start again with their data.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { AnthropicBatches } from "../../../apps/simulator/batches/anthropic.ts";
import { GeminiBatches } from "../../../apps/simulator/batches/gemini.ts";
import { OpenAiBatches } from "../../../apps/simulator/batches/openai.ts";
import { bodyValueOf } from "../../../apps/simulator/request-body.ts";
import { type Role, startGateway, startRole } from "../../support/gateway.ts";
import { startPostgres } from "../../support/postgres.ts";
import { until } from "../../support/time.ts";

export const victims = ["control", "ingress", "worker", "redis", "postgres"] as const;
export type Victim = (typeof victims)[number];

interface KillsOptions {
  seed: number;
  lines: number;
  kills: number;
  /** One of them is killed each time. */
  victims: readonly Victim[];
  /** The upstream has batches of its own. */
  batchApi?: boolean;
  dialect?: Dialect;
  /** The time between two kills is at random up to this. */
  pauseMsMax?: number;
}

export interface KillsResult {
  kills: number;
  /** In the order of the file, once each. */
  resultsInOrder: number;
  records: number;
  /** Calls of the upstream beyond one for each line. */
  additionalCalls: number;
}

/** Lines that run at once. */
export const concurrency = 32;
/** How long the upstream takes for a line. */
export const callMs = 60;

/** https://en.wikipedia.org/wiki/Linear_congruential_generator */
function randomOf(start: number): () => number {
  let state = start >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The simulator asks for it. */
const vendorHeaders = { "anthropic-version": "2023-06-01" };

/** The APIs of upstreams. */
const dialects = {
  "openai-chat": {
    base: "/v1",
    Batches: OpenAiBatches,
    lineIn: ({ messages }: { messages: { content: string }[] }) => messages[0]?.content,
    answer: (text: string) => ({
      ...{ id: "chatcmpl-1", object: "chat.completion", created: 1, model: "counted" },
      choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
      usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 },
    }),
  },
  "anthropic-messages": {
    base: "/v1",
    Batches: AnthropicBatches,
    lineIn: ({ messages }: { messages: { content: string | { text: string }[] }[] }) => {
      const content = messages[0]?.content;
      return typeof content === "string" ? content : content?.[0]?.text;
    },
    answer: (text: string) => ({
      ...{ id: "msg_1", type: "message", role: "assistant", model: "counted" },
      ...{ content: [{ type: "text", text }], stop_reason: "end_turn", stop_sequence: null },
      usage: { input_tokens: 10, output_tokens: 10 },
    }),
  },
  gemini: {
    base: "/v1beta",
    Batches: GeminiBatches,
    lineIn: ({ contents }: { contents: { parts: { text: string }[] }[] }) => contents[0]?.parts[0]?.text,
    answer: (text: string) => ({
      candidates: [{ index: 0, content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 },
    }),
  },
};
type Dialect = keyof typeof dialects;
export const dialectNames = Object.keys(dialects) as Dialect[];

const catalogueOf = (upstream: string, { batchApi, dialect }: { batchApi: boolean; dialect: Dialect }) => `
groups:
  default: { models: ["*"] }
upstreams:
  counted: { dialect: ${dialect}, batchApi: ${batchApi}, circuitBreakerFailuresMax: 0, baseUrl: "${upstream}" }
models:
  - { id: test/model, prices: { inputPerMillion: 1000, outputPerMillion: 1000 }, route: [{ upstream: counted, model: counted }] }
`;

/** An upstream that counts the calls of each line, alone and in batches. */
async function startUpstream(calls: Map<string, number>, dialect: Dialect) {
  const { base, Batches, lineIn, answer } = dialects[dialect];
  const batches = new Batches(async (path, body) => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, {
      method: "POST",
      body,
    });
    return { status: response.status, requestId: "", text: await response.text() };
  });
  const server = createServer(async (request, response) => {
    const { method = "", url = "", headers } = request;
    const { pathname: path, searchParams: query } = new URL(url, "http://127.0.0.1");
    if (batches.serves(method, path)) {
      const read = await bodyValueOf(await buffer(request), headers["content-type"]);
      const body = read.kind === "ok" ? read.value : undefined;
      const batch = batches.answer({ method, path, query, body, headers: vendorHeaders });
      response.end(typeof batch === "string" ? batch : JSON.stringify(batch));
      return;
    }
    const line = lineIn(JSON.parse(await text(request))) ?? "";
    calls.set(line, (calls.get(line) ?? 0) + 1);
    await delay(callMs);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer(`answer to ${line}`)));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${base}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Rejects if a line has no result or several, or a wrong one. */
export async function runWithKills(options: KillsOptions): Promise<KillsResult> {
  const { seed, lines, pauseMsMax = 1_500, batchApi = false, dialect = "openai-chat" } = options;
  const random = randomOf(seed);
  await using opened = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "sluice-kills-"));
  opened.defer(() => rm(directory, { recursive: true, force: true }));
  const INTERNAL_SECRET = "the secret of ingress and control in tests";
  const CONTROL_INTERNAL_URL = `unix:${join(directory, "control.sock")}`;
  const calls = new Map<string, number>();
  const upstream = await startUpstream(calls, dialect);
  opened.defer(() => upstream.close());
  const usage = { USAGE_DIRECTORY: join(directory, "usage") };
  const gateway = opened.use(
    await startGateway({
      catalogue: catalogueOf(upstream.url, { batchApi, dialect }),
      processes: "workers",
      ingresses: 0,
      isDurable: true,
      environment: { INTERNAL_SECRET, CONTROL_INTERNAL_URL, ...usage },
    }),
  );
  let ingress = await gateway.addIngress({}, true);
  const url = ingress.urls.api as string;
  const postgres = opened.use(await startPostgres());
  const token = "operator-token-of-the-tests-0123456789";
  const environment = {
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    DATABASE_URL: await postgres.createDatabase(),
    OPERATOR_TOKEN: token,
    CONTROL_HOST: "127.0.0.1",
    CONTROL_PORT: "0",
    OPERATIONS_PORT: "0",
    INTERNAL_SECRET,
    CONTROL_INTERNAL_ADDRESS: CONTROL_INTERNAL_URL,
    INGRESS_URL: url,
    FILES_DIRECTORY: join(directory, "files"),
    BATCH_CONCURRENCY: String(concurrency),
    VENDOR_BATCH_POLL_SECONDS: "1",
  };
  let control: Role = await startRole("control", [], environment);
  opened.defer(() => control.kill());
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${control.urls.control}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    assert.ok(response.ok, `${method} ${path}: ${response.status}`);
    return response.json() as Promise<never>;
  };
  await call("POST", "/accounts", { id: "acme", name: "acme" });
  const { key } = await call("POST", "/keys", { account: "acme", name: "test", group: "default" });
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 10 });
  const input = Array.from({ length: lines }, (_, index) =>
    JSON.stringify({
      custom_id: `line-${index}`,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: "test/model", messages: [{ role: "user", content: `line ${index}` }] },
    }),
  ).join("\n");
  const file = await client.files.create({ file: await toFile(Buffer.from(input), "in.jsonl"), purpose: "batch" });
  const { id } = await client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  const kill: Record<Victim, () => Promise<unknown>> = {
    async control() {
      await control.kill();
      control = await startRole("control", [], environment);
    },
    async ingress() {
      await ingress.kill();
      ingress = await gateway.addIngress({ PORT: new URL(url).port }, true);
    },
    async worker() {
      await gateway.workers.at(-1)?.kill();
      await gateway.addWorker("chat=1000", {}, true);
    },
    redis: () => gateway.redis.restart(),
    postgres: () => postgres.restart(),
  };
  const isOver = async () => (await client.batches.retrieve(id).catch(() => undefined))?.status === "completed";
  let kills = 0;
  while (kills < options.kills && !(await isOver())) {
    await delay(200 + random() * (pauseMsMax - 200));
    const victim = options.victims[Math.floor(random() * options.victims.length)] as Victim;
    await kill[victim]();
    kills++;
  }
  await until("the end of the batch", isOver, 200_000);
  const batch = await client.batches.retrieve(id);
  assert.deepEqual(batch.request_counts, { total: lines, completed: lines, failed: 0 });
  const output = (await (await client.files.content(batch.output_file_id ?? "")).text()).trim().split("\n");
  assert.deepEqual(
    output.map((line) => JSON.parse(line).custom_id),
    Array.from({ length: lines }, (_, index) => `line-${index}`),
  );
  // Records that a killed control had read from Redis are taken over after a minute.
  let records = 0;
  await until(
    "the ledger has all lines",
    async () => {
      await delay(500);
      const { total } = await call("GET", "/usage?account=acme");
      records = (total as { requests: number }).requests;
      return records >= lines;
    },
    120_000,
  );
  assert.equal(calls.size, lines);
  const additionalCalls = [...calls.values()].reduce((sum, count) => sum + count - 1, 0);
  return { kills, resultsInOrder: output.length, records, additionalCalls };
}
