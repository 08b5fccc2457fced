import assert from "node:assert/strict";
import { test } from "node:test";
import { Counter, Histogram, Registry } from "prom-client";
import { combinationsOf, HotCounter, HotHistogram } from "#service/hot-metrics.ts";

const counterOptions = (registry: Registry) => ({
  name: "calls_total",
  help: "Calls.",
  labelNames: ["path", "status"] as ["path", "status"],
  registers: [registry],
});
const histogramOptions = (registry: Registry) => ({
  name: "wait_seconds",
  help: "Waits.",
  labelNames: ["queue"] as ["queue"],
  buckets: [0.1, 1, 10],
  registers: [registry],
});

/** Without exemplars, of which there are none. */
const jsonOf = async (registry: Registry) =>
  JSON.parse(
    JSON.stringify(await registry.getMetricsAsJSON(), (name, value) => (name === "exemplar" ? undefined : value)),
  );

test("hot metrics read like prom-client's own, each time", async () => {
  const [own, other] = [new Registry(), new Registry()];
  const counter = new HotCounter(counterOptions(own));
  const otherCounter = new Counter(counterOptions(other));
  const histogram = new HotHistogram(histogramOptions(own));
  const otherHistogram = new Histogram(histogramOptions(other));
  assert.equal(await own.metrics(), await other.metrics());
  for (let round = 0; round < 2; round++) {
    for (const labels of [
      { path: "/v1", status: 200 },
      { path: "/v1", status: 500 },
      { path: '/"2\\', status: "none" },
      { path: "/v1", status: 200 },
    ]) {
      counter.inc(labels);
      otherCounter.inc(labels);
      counter.inc(labels, 3);
      otherCounter.inc(labels, 3);
    }
    for (const [queue, value] of [
      ["chat", 0.05],
      ["chat", 0.1],
      ["image", 0.100001],
      ["chat", 10],
      ["chat", 11],
      ["image", 0],
    ] as const) {
      histogram.add({ queue }, value);
      otherHistogram.observe({ queue }, value);
    }
    assert.equal(await own.metrics(), await other.metrics());
    assert.deepEqual(await jsonOf(own), await jsonOf(other));
  }
});

test("series that are known begin with zero, keep what is counted, and follow a catalogue that changes", async () => {
  const registry = new Registry();
  const paths = ["/v1"];
  const initial = () => combinationsOf({ path: paths, status: [200, 500] });
  const counter = new HotCounter({ ...counterOptions(registry), initial });
  new HotHistogram({ ...histogramOptions(registry), initial: () => combinationsOf({ queue: ["chat"] }) });
  const countsOf = async () =>
    [...(await registry.metrics()).matchAll(/^calls_total\{path="(.+)",status="(.+)"\} (.+)$/gm)].map(([, ...values]) =>
      values.join(" "),
    );
  assert.deepEqual(await countsOf(), ["/v1 200 0", "/v1 500 0"]);
  assert.match(await registry.metrics(), /^wait_seconds_count\{queue="chat"\} 0$/m);
  counter.inc({ path: "/v1", status: 500 });
  paths.push("/v2");
  assert.deepEqual(await countsOf(), ["/v1 200 0", "/v1 500 1", "/v2 200 0", "/v2 500 0"]);
});

test("a metric begins with a thousand series at most", () => {
  const values = Array.from({ length: 40 }, (_, index) => index);
  assert.equal(combinationsOf({ path: values, status: values.slice(0, 2) }).length, 80);
  assert.equal(combinationsOf({ path: values, status: values }).length, 1_000);
});
