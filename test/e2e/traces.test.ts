/** Traces as a collector receives them, through the whole gateway. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { type Collector, type ReceivedSpan, startCollector } from "../support/collector.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

const secret = "the caller's own words";
const callerTrace = "0af7651916cd43dd8448eb211c80319c";
const callerSpan = "b7ad6b7169203331";

/** An upstream that refuses every generation. */
const broken = await startScriptedUpstream((response, { method }) =>
  jsonAnswer("{}", method === "POST" ? 503 : 200)(response),
);
const generationHeaders = () => broken.requests.filter(({ method }) => method === "POST").map(({ headers }) => headers);

const directory = mkdtempSync(join(tmpdir(), "traces-"));
const headersFile = join(directory, "headers");
writeFileSync(headersFile, "authorization=Bearer%20in-a-file, x-second=b\n");

let collector: Collector;
let gateway: Gateway;

before(async () => {
  collector = await startCollector();
  // The exporter reads the environment of its process.
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
  process.env.OTEL_EXPORTER_OTLP_HEADERS = "x-tenant=blue";
  gateway = await startGateway({
    workers: [],
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE: headersFile,
      OTEL_BSP_SCHEDULE_DELAY: "20",
    },
    catalogue: `
groups:
  default: { models: ["*"] }
upstreams:
  broken: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${broken.url}", sendsTrace: true }
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: two, queue: chat, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: broken, model: theirs }, { upstream: simulator, model: "sim-text;tokens=9;rate=0" }] }
  - { id: one, queue: chat, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: simulator, model: "sim-text;tokens=4;rate=0" }] }
`,
  });
});

after(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await collector?.[Symbol.asyncDispose]();
  await broken[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

const body = (model: string, stream: boolean) => ({
  model,
  stream,
  ...(stream && { stream_options: { include_usage: true } }),
  messages: [{ role: "user", content: secret }],
});

/** The spans of the trace once they are all there, by name. */
async function traceOf(traceId: string, count: number): Promise<Map<string, ReceivedSpan>> {
  const own = () => collector.spans.filter((span) => span.traceId === traceId);
  await until(`${count} spans of the trace`, () => own().length >= count);
  assert.equal(own().length, count);
  const byName = new Map(own().map((span) => [span.name, span]));
  assert.equal(byName.size, count);
  return byName;
}

const metric = async (url: string | undefined, line: RegExp) => line.test(await (await fetch(`${url}/metrics`)).text());

test("a request that is queued, fails over and streams is one trace below its caller's span", async () => {
  const headers = { traceparent: `00-${callerTrace}-${callerSpan}-01`, tracestate: "vendor=1" };
  const answering = gateway.post(body("two", true), { headers });
  const operations = gateway.ingresses[0]?.urls.operations;
  await until("the request waits", () => metric(operations, /sluice_queue_jobs\{[^}]*state="waiting"[^}]*\} 1/));
  await gateway.addWorker("chat=4");
  const response = await answering;
  assert.equal(response.status, 200);
  const answer = await response.text();
  assert.match(answer, /\[DONE\]/);

  const spans = await traceOf(callerTrace, 5);
  const [request, queue, attempt, failed, answered] = [
    "chat two",
    "queue chat",
    "attempt chat",
    "chat theirs",
    "chat sim-text;tokens=9;rate=0",
  ].map((name) => spans.get(name) as ReceivedSpan) as [
    ReceivedSpan,
    ReceivedSpan,
    ReceivedSpan,
    ReceivedSpan,
    ReceivedSpan,
  ];
  assert.deepEqual(
    [request, queue, attempt, failed, answered].map(({ parentSpanId, kind, status, service }) => [
      parentSpanId,
      kind,
      status,
      service,
    ]),
    [
      [callerSpan, 2, 0, "sluice-ingress"],
      [request.spanId, 1, 0, "sluice-ingress"],
      [request.spanId, 5, 0, "sluice-worker"],
      [attempt.spanId, 3, 2, "sluice-worker"],
      [attempt.spanId, 3, 0, "sluice-worker"],
    ],
  );
  for (const span of spans.values()) {
    assert.equal(span.traceState, "vendor=1");
    assert.ok(span.endedAt >= span.startedAt, span.name);
    // Each process reads the clock in whole milliseconds.
    assert.ok(span.startedAt >= request.startedAt - 2 && span.endedAt <= request.endedAt + 2_000, span.name);
  }
  assert.ok(answered.startedAt >= failed.endedAt - 2);
  assert.deepEqual(
    attempt.events.map(({ name, attributes }) => [name, attributes]),
    [["failover", { "sluice.upstream": "simulator", "error.type": "overloaded" }]],
  );
  assert.deepEqual(
    [request, queue, answered].map(({ events }) => events.map(({ name }) => name)),
    [["first content"], ["enqueued"], ["first content"]],
  );

  assert.equal(request.attributes["sluice.request_id"], response.headers.get("x-request-id"));
  assert.equal(request.attributes["http.response.status_code"], 200);
  assert.equal(failed.attributes["error.type"], "overloaded");
  assert.equal(failed.attributes["http.response.status_code"], 503);
  const { attributes } = answered;
  const input = Number(/"prompt_tokens":(\d+)/.exec(answer)?.[1]);
  assert.equal(attributes["gen_ai.operation.name"], "chat");
  assert.equal(attributes["gen_ai.provider.name"], "openai");
  assert.equal(attributes["gen_ai.request.model"], "sim-text;tokens=9;rate=0");
  assert.equal(attributes["gen_ai.request.stream"], true);
  assert.equal(attributes["gen_ai.usage.input_tokens"], input);
  assert.equal(attributes["gen_ai.usage.output_tokens"], 9);
  assert.deepEqual(attributes["gen_ai.response.finish_reasons"], ["stop"]);
  assert.equal(attributes["server.address"], "127.0.0.1");
  assert.ok(Number(attributes["gen_ai.response.time_to_first_chunk"]) >= 0);
  for (const span of collector.spans)
    if (span !== answered) assert.equal(span.attributes["gen_ai.usage.output_tokens"], undefined);

  // The upstream's own spans would be below its call's.
  assert.deepEqual(
    generationHeaders().map(({ traceparent, tracestate }) => [traceparent, tracestate]),
    [[`00-${callerTrace}-${failed.spanId}-01`, "vendor=1"]],
  );
  assert.ok(!JSON.stringify(collector.spans).includes(secret));
  assert.ok(!JSON.stringify(collector.spans).includes(gateway.key));
  const { "x-tenant": tenant, authorization, "x-second": second } = collector.headers[0] ?? {};
  assert.deepEqual([tenant, authorization, second], ["blue", "Bearer in-a-file", "b"]);
  assert.equal(collector.headers[0]?.path, "/v1/traces");
});

test("the usage record has the trace's id", async () => {
  const redis = await connectRedis(gateway.redis.url, "patient");
  try {
    const { usage } = keyspaceOf("sluice");
    await until("the record", async () => JSON.stringify(await redis.xrange(usage, "-", "+")).includes(callerTrace));
  } finally {
    redis.disconnect();
  }
});

test("a request without a trace begins one", async () => {
  const from = collector.spans.length;
  await (await gateway.post(body("one", false))).text();
  await until("its spans", () => collector.spans.length >= from + 4);
  const spans = collector.spans.slice(from);
  assert.equal(new Set(spans.map(({ traceId }) => traceId)).size, 1);
  assert.deepEqual(
    spans.filter(({ parentSpanId }) => parentSpanId === "").map(({ name }) => name),
    ["chat one"],
  );
  const finishes = spans.map(({ attributes }) => attributes["gen_ai.response.finish_reasons"]);
  assert.deepEqual(
    finishes.filter((finish) => finish !== undefined),
    [["stop"]],
  );
});

test("a caller that does not sample gets no spans", async () => {
  const from = collector.spans.length;
  const unsampled = "1bf7651916cd43dd8448eb211c80319c";
  const headers = { traceparent: `00-${unsampled}-${callerSpan}-00` };
  await (await gateway.post(body("two", false), { headers })).text();
  // The upstream hears of the decision, and a later request's spans arrive.
  assert.match(String(generationHeaders().at(-1)?.traceparent), new RegExp(`^00-${unsampled}-[0-9a-f]{16}-00$`));
  await (await gateway.post(body("one", false))).text();
  await until("spans of the later request", () => collector.spans.length >= from + 4);
  assert.ok(collector.spans.every(({ traceId }) => traceId !== unsampled));
});

test("a refused request has a span", async () => {
  const headers = { traceparent: `00-2cf7651916cd43dd8448eb211c80319c-${callerSpan}-01` };
  assert.equal((await gateway.post(body("unknown", false), { headers })).status, 404);
  const span = (await traceOf("2cf7651916cd43dd8448eb211c80319c", 1)).get("POST /v1/chat/completions");
  assert.equal(span?.parentSpanId, callerSpan);
  assert.equal(span.attributes["error.type"], "model_not_found");
  assert.equal(span.status, 0);
});

test("a collector that fails or does not answer disturbs no request, and drops are counted", async () => {
  const operations = gateway.ingresses[0]?.urls.operations;
  collector.answer = (response) => void response.writeHead(400).end("no");
  const ask = async () => {
    const response = await gateway.post(body("one", false));
    await response.text();
    return response.status;
  };
  assert.equal(await ask(), 200);
  await until("spans are dropped", () => metric(operations, /^sluice_spans_dropped_total [1-9]/m));
  const silent: ServerResponse[] = [];
  collector.answer = (response) => void silent.push(response);
  assert.equal(await ask(), 200);
  await until("the collector is asked and does not answer", () => silent.length >= 2);
  assert.deepEqual(await Promise.all([ask(), ask(), ask()]), [200, 200, 200]);
  collector.answer = undefined;
  for (const response of silent) response.end();
});
