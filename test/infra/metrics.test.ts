/**
 * Metrics that real processes export, compared with docs/metrics.md, the dashboard and the alerts;
 * and what callers cannot do to them.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { after, test } from "node:test";
import { type DocumentedMetric, gatewayMetrics, nodeMetrics } from "../../docs/metrics.ts";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";
import { type Exposition, scrape } from "./exposition.ts";
import { expressions, usesOf } from "./promql.ts";

await using opened = new AsyncDisposableStack();
const models = [
  { id: "fast", model: "sim-text;rate=0;first=0;tokens=4" },
  { id: "failing", model: "sim-text;status=503" },
  { id: "malformed", model: "sim-text;malformed=2;rate=0;first=0;tokens=4" },
  { id: "silent", model: "sim-text;first=60000" },
];
const gateway = opened.use(
  await startGateway({
    // A process of its own has the metrics of Node.js too.
    processes: "workers",
    workers: ["chat=8"],
    environment: { REDIS_WAIT_MS: "0" },
    catalogue: catalogueOf(models).replace(
      "circuitBreakerFailuresMax: 0",
      "circuitBreakerFailuresMax: 2, concurrencyMax: 50",
    ),
  }),
);
const control = opened.use(
  await startControl({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
  }),
);
const resources = opened.move();
after(() => resources.disposeAsync());

const [ingress, worker] = [gateway.ingresses[0], gateway.workers[0]].map((role) => role?.urls.operations as string);
const scrapeAll = async (): Promise<Record<string, Exposition>> => ({
  ingress: await scrape(ingress as string),
  worker: await scrape(worker as string),
  control: await scrape(control.operations),
});

const messages = [{ role: "user", content: "Hello" }];
const ask = async (model: string, more: object = {}, headers: Record<string, string> = {}) => {
  const response = await gateway.post({ model, messages, ...more }, { headers });
  await readStream(response);
  return response.status;
};

/** Traffic that fails and succeeds in as many ways as the dashboard shows. */
async function makeTraffic() {
  assert.equal(await ask("fast"), 200);
  assert.equal(await ask("fast", { stream: true }), 200);
  for (let call = 0; call < 3; call++) assert.ok((await ask("failing")) >= 500);
  await ask("malformed", { stream: true });
  const leave = new AbortController();
  const leaving = gateway.post({ model: "silent", messages }, { signal: leave.signal }).catch(() => undefined);
  await until("the upstream was asked", async () => (await gateway.seen("sim-text;first=60000")).length === 1);
  leave.abort();
  await leaving;
  const limited = await gateway.createKey("default", { limits: { requestsPerMinute: 1 } });
  const statuses = [0, 1].map(async () => (await gateway.post({ model: "fast", messages }, { key: limited })).status);
  assert.deepEqual((await Promise.all(statuses)).sort(), [200, 429]);
  const body = { reason: "a test" };
  assert.equal((await control.call("POST", "/operations/queues/image/pause", body)).status, 202);
}

const untouched = await scrapeAll();
await makeTraffic();
let scraped: Record<string, Exposition> = {};
await until("all of it is counted", async () => {
  scraped = await scrapeAll();
  const has = (role: string, name: string) => scraped[role]?.series.has(name);
  return (
    has("ingress", "sluice_operator_control") === true &&
    has("ingress", "sluice_ended_generations_total") === true &&
    has("ingress", "sluice_limit_refusals_total") === true &&
    has("worker", "sluice_circuit_breaker_open") === true
  );
});

const documented = new Map<string, Omit<DocumentedMetric, "roles">>(
  [...gatewayMetrics(), ...nodeMetrics()].map((metric) => [metric.name, metric]),
);
const metricOf = (series: string) =>
  documented.get(series) ?? documented.get(series.replace(/_(bucket|sum|count)$/, ""));
const labelsOf = (series: string): string[] => {
  const { labels = [], type } = metricOf(series) ?? {};
  return type === "histogram" && series.endsWith("_bucket") ? [...labels, "le"] : labels;
};

test("each process exports exactly the metrics that docs/metrics.md has for its role, with their types and labels", () => {
  const inherited = new Set(nodeMetrics().map(({ name }) => name));
  for (const [role, { types, series }] of Object.entries(scraped)) {
    const own = gatewayMetrics().filter(({ roles }) => roles.includes(role));
    assert.deepEqual(
      [...types].filter(([name]) => !inherited.has(name)).sort(),
      own.map(({ name, type }) => [name, type]).sort(),
    );
    for (const [name, members] of series)
      for (const { labels } of members)
        assert.deepEqual(Object.keys(labels).sort(), [...labelsOf(name)].sort(), `${role}: ${name}`);
  }
});

/** Labelled counters whose values are not known before: too many pairs. */
const notAtZero = ["sluice_capped_usage_total"];

test("before any request, every labelled counter of the dashboard has its series, at zero", () => {
  const used = new Set(expressions.flatMap(({ expr }) => usesOf(expr).uses.map(({ metric }) => metric)));
  const counters = gatewayMetrics().filter(
    ({ name, type, labels }) => type === "counter" && labels.length > 0 && !notAtZero.includes(name),
  );
  assert.ok(counters.length >= 10);
  for (const { name, roles, labels } of counters) {
    assert.ok(used.has(name), name);
    for (const role of roles) {
      const members = untouched[role]?.series.get(name) ?? [];
      assert.ok(members.length > 0 && members.length <= 1_000, `${role}: ${name} has ${members.length} series`);
      for (const member of members) {
        assert.deepEqual(Object.keys(member.labels).sort(), [...labels].sort(), name);
        assert.equal(member.value, 0, `${name} ${JSON.stringify(member.labels)}`);
      }
    }
  }
});

test("what requests count are series that were there before", () => {
  for (const [role, { series }] of Object.entries(scraped))
    for (const [name, members] of series) {
      if (metricOf(name)?.type !== "counter" || metricOf(name)?.labels.length === 0 || notAtZero.includes(name))
        continue;
      if (!name.startsWith("sluice_")) continue;
      const before = new Set(untouched[role]?.series.get(name)?.map(({ labels }) => JSON.stringify(labels)));
      for (const { labels } of members)
        assert.ok(before.has(JSON.stringify(labels)), `${name} ${JSON.stringify(labels)} began later`);
    }
});

/** Labels that Prometheus adds to what it scrapes. */
const targetLabels = ["instance", "job", "namespace"];
/** They need an upstream that refuses a credential, reports too much, or states its limits. */
const notInThisTraffic = [
  "sluice_credentials_cooling",
  "sluice_capped_usage_total",
  "sluice_vendor_limit_remaining_ratio",
];

test("the dashboard and the alerts use metrics and labels that processes export", () => {
  const exported = new Set(Object.values(scraped).flatMap(({ series }) => [...series.keys()]));
  assert.ok(expressions.length > 80);
  for (const { where, expr, named } of expressions) {
    const { uses, grouping } = usesOf(expr);
    assert.ok(uses.length > 0, where);
    const all = [...targetLabels];
    for (const { metric, labels } of uses) {
      if (metric === "up") continue;
      assert.ok(exported.has(metric) || notInThisTraffic.includes(metric), `${where}: no process exports ${metric}`);
      const labelNames = [...targetLabels, ...labelsOf(metric)];
      for (const label of labels) assert.ok(labelNames.includes(label), `${where}: ${metric} has no label ${label}`);
      all.push(...labelNames);
    }
    for (const label of [...grouping, ...named])
      assert.ok(all.includes(label), `${where}: no metric of the expression has the label ${label}`);
  }
});

test("the gateway's metrics are on the dashboard or in an alert", () => {
  const used = new Set(
    expressions.flatMap(({ expr }) => usesOf(expr).uses.map(({ metric }) => metricOf(metric)?.name)),
  );
  assert.deepEqual(
    gatewayMetrics()
      .map(({ name }) => name)
      .filter((name) => !used.has(name)),
    // Queued requests are part of those that wait; control's own count is in the ledger's lag.
    ["sluice_ledger_records_total", "sluice_queued_generations"],
  );
});

/** Each label's values, of all gateway's metrics of a process. */
function valuesIn({ series }: Exposition): Map<string, Set<string>> {
  const values = new Map<string, Set<string>>();
  for (const [name, members] of series)
    if (name.startsWith("sluice_"))
      for (const { labels } of members)
        for (const [label, value] of Object.entries(labels)) {
          const of = values.get(label) ?? new Set();
          values.set(label, of.add(value));
        }
  return values;
}

/** Sends a request as it is, which an HTTP client would refuse. */
async function sendRaw(head: string) {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.resume().end(`${head}\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\nconnection: close\r\n\r\n`);
  socket.on("error", () => undefined);
  await once(socket, "close");
}

test("a caller cannot create a value of a label: odd models, paths, methods, queues, tags and versions", async () => {
  const marks = [...Array(20).keys()].map((index) => `mark-${index}`);
  const { port } = new URL(gateway.url);
  for (const mark of marks) {
    const odd = [mark, `${mark}"}`, `fast;${mark}`, `../${mark}`, `sim-text;${mark}`, `image/${mark}\n`];
    await Promise.all([
      ...odd.map((model) => ask(model)),
      ask(
        "fast",
        { service_tier: mark, user: mark, metadata: { queue: mark } },
        { "x-sluice-tags": mark, "x-sluice-user": mark },
      ),
      ask(
        "fast",
        {},
        { "x-sluice-queue": mark, "x-sluice-resume": mark, "openai-version": mark, "idempotency-key": mark },
      ),
      ...[
        `/v1/${mark}`,
        `/${mark}/v1/chat/completions`,
        `/v1/models/${mark}`,
        `/v1beta/models/${mark}:generateContent`,
      ].map((path) =>
        fetch(`${gateway.url}${path}`, {
          method: "POST",
          body: "{}",
          headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
        }).then((response) => response.text()),
      ),
      sendRaw(`GET /openai/deployments/${mark}/chat/completions?api-version=${mark} HTTP/1.1`),
      sendRaw(`${mark.toUpperCase()} /v1/chat/completions HTTP/1.1`),
      new Promise<void>((resolve) => {
        const sent = request({ port, method: "PROPFIND", path: `/v1/responses/${mark}` }, (response) =>
          response.resume().on("end", resolve),
        );
        sent.on("error", () => resolve()).end();
      }),
    ]);
  }
  const counted = await scrapeAll();
  const pathsOf = (exposition?: Exposition) => [...(valuesIn(exposition as Exposition).get("path") ?? [])].sort();
  const text = JSON.stringify(Object.values(counted).map(({ series }) => [...series]));
  assert.doesNotMatch(text, /mark/i);
  assert.deepEqual(pathsOf(counted.ingress), pathsOf(untouched.ingress));
  assert.ok(pathsOf(counted.ingress).includes("other"));
  const bounded = { model: models.map(({ id }) => id), upstream: ["simulator"] };
  for (const exposition of Object.values(counted))
    for (const [label, allowed] of Object.entries(bounded))
      for (const value of valuesIn(exposition).get(label) ?? [])
        assert.ok(allowed.includes(value), `${label}: ${value}`);
});

test("while Redis is away, a scrape takes less than its timeout, and what Redis would say is NaN or absent", async () => {
  await gateway.redis.kill();
  await until("the processes notice", async () => {
    const { value } = (await scrape(ingress as string)).series.get("sluice_relay_connected")?.[0] ?? {};
    return value === 0;
  });
  const startedAt = performance.now();
  const away = await scrapeAll();
  assert.ok(performance.now() - startedAt < 5_000, "scrape_timeout of infra/prometheus/prometheus.yml");
  const latestOf = (role: string, name: string) => away[role]?.series.get(name)?.[0]?.value;
  assert.equal(latestOf("control", "sluice_redis_memory_bytes"), Number.NaN);
  assert.equal(latestOf("control", "sluice_ledger_lag_seconds"), Number.NaN);
  assert.equal(latestOf("ingress", "sluice_queue_jobs"), undefined);
  assert.equal(latestOf("ingress", "sluice_ready"), 0);
});
