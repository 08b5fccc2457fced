/**
 * The Helm chart, as far as it can be checked without Helm. `test/infra/chart.long.ts` renders it.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import Schema from "typebox/schema";
import { parse } from "yaml";
import { gatewayMetrics, nodeMetrics } from "../../docs/metrics.ts";
import {
  burstPicture,
  chartScaling,
  desiredOf,
  pageFile,
  pictureFile,
  type Sample,
  simulate,
  stepChanges,
  stepOf,
  withTable,
} from "../../infra/kubernetes/scaling.ts";
import { secretsFile, secretsText } from "../../infra/kubernetes/secrets.ts";
import { chart, chartText, defaultValues, documentedVariables, type Json, valuesSchema } from "./chart.ts";
import { textOf } from "./compose.ts";

/** The default of an upstream's `totalTimeoutMs`. */
const answerSecondsMax = 600;
const validator = Schema.Compile(valuesSchema);
const isValid = (change: Record<string, Json>) => validator.Check({ ...defaultValues, ...change });

test("the default values pass their schema; unknown values and wrong numbers do not", () => {
  assert.deepEqual(validator.Errors(defaultValues), [true, []]);
  const chat = { queues: { chat: 512 } };
  assert.ok(isValid({ settings: { LOG_LEVEL: "warn" }, workers: { chat, image: null } }));
  for (const change of [
    { unknown: 1 },
    { settings: { BODY_BYTES_MAX: 33_554_432 } },
    { pod: { unknown: [] } },
    { pod: { labels: { "app.kubernetes.io/component": "other" } } },
    { pod: { env: [{ name: "A" }] } },
    { ingress: { pod: { volumes: [{ name: "tmp", emptyDir: {} }] } } },
    { certificateAuthorities: [{ key: "ca.crt" }] },
    { certificateAuthorities: [{ configMap: "a", secret: "b" }] },
    { workers: { chat: { queues: { chat: 0 } } } },
    { workers: { Chat: chat } },
    { workers: { chat: { queues: {} } } },
    { credentials: ["not a name"] },
    { secrets: { redis: "" } },
  ])
    assert.ok(!isValid(change as Record<string, Json>), JSON.stringify(change));
});

test("every value has a description and a default", () => {
  const walk = (schema: Record<string, Json>, values: Json | undefined, path: string) => {
    for (const [name, member] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, Json>>)) {
      const [at, value] = [`${path}.${name}`, (values as Record<string, Json> | undefined)?.[name]];
      assert.ok(typeof member.description === "string" && member.description.endsWith("."), at);
      assert.ok(value !== undefined || at === ".global", `${at} has a default`);
      walk(member, value, at);
    }
  };
  walk(valuesSchema, defaultValues, "");
});

test("pods drain for as long as an answer may take, and those of ingresses twice as long", () => {
  const { drainSeconds: drainMax } = defaultValues.ingress as Record<string, number>;
  const { drainSeconds: workerDrain } = defaultValues.workerDefaults as Record<string, number>;
  const pools = Object.values(defaultValues.workers as Record<string, Record<string, number>>);
  for (const { drainSeconds = workerDrain } of pools) assert.ok(drainSeconds! >= answerSecondsMax);
  assert.ok(drainMax! >= 2 * answerSecondsMax);
});

test("the templates name settings, metrics and commands that exist, and the chart has the project's version", () => {
  const templates = globSync("templates/*", { cwd: chart }).map(chartText).join("\n");
  const settings = new Set([...templates.matchAll(/\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b/g)].map(([name]) => name));
  assert.ok(settings.size > 15);
  // A variable of the command line, not of a process.
  settings.delete("SLUICE_CONTROL_URL");
  // A variable of the catalogue.
  settings.delete("SIMULATOR_URL");
  // Node's own.
  settings.delete("NODE_EXTRA_CA_CERTS");
  for (const name of settings) assert.ok(documentedVariables.has(name), name);
  const metrics = new Set(gatewayMetrics().map(({ name }) => name));
  for (const [name] of templates.matchAll(/\bsluice_\w+/g)) assert.ok(metrics.has(name), name);
  for (const [path] of templates.matchAll(/\bapps\/\w+\/main\.ts/g)) assert.ok(textOf(path));
  const { version } = JSON.parse(textOf("package.json")) as { version: string };
  assert.match(chartText("Chart.yaml"), new RegExp(`^version: ${version}\nappVersion: ${version}$`, "m"));
  assert.equal(chartText("files/alerts.yml"), textOf("infra/prometheus/alerts.yml"));
});

test("the chart knows the variables with secrets; `npm run reference` writes them", () => {
  assert.equal(readFileSync(secretsFile, "utf8"), secretsText());
  for (const name of ["DATABASE_URL", "OPERATOR_TOKEN", "SMTP_URL", "OTEL_EXPORTER_OTLP_HEADERS"])
    assert.match(secretsText(), new RegExp(`^${name}$`, "m"));
});

test("targets of a PodMonitor have the labels of prometheus.yml, and no metric has them too", () => {
  const [{ relabelings }] = parse(
    /podMetricsEndpoints:\n([\s\S]*?)\{\{- end/.exec(chartText("templates/monitoring.yaml"))![1]!,
  ) as [{ relabelings: { targetLabel?: string }[] }];
  const [{ relabel_configs: relabelConfigs }] = parse(textOf("infra/prometheus/prometheus.yml")).scrape_configs as [
    { relabel_configs: { target_label: string }[] },
  ];
  // The operator itself sets `namespace`, and Prometheus `instance`.
  const targetLabels = new Set([
    "namespace",
    "instance",
    ...relabelings.flatMap(({ targetLabel }) => targetLabel ?? []),
  ]);
  assert.deepEqual(targetLabels, new Set(["instance", ...relabelConfigs.map((config) => config.target_label)]));
  for (const { name, labels } of [...gatewayMetrics(), ...nodeMetrics()])
    for (const label of labels) assert.ok(!targetLabels.has(label), `${name} has the label ${label} of its target`);
});

const sampleOf = (change: Partial<Sample>): Sample => ({
  at: 100,
  generations: 0,
  oldestWait: 0,
  workers: 2,
  capacity: 2_048,
  ...change,
});

test("the autoscaler's number: the load over 0.7 of what a worker really takes, and the spare ones, with a tolerance", () => {
  const scaling = chartScaling("chat");
  assert.deepEqual(
    [scaling.capacity, scaling.targetUtilization, scaling.spareReplicas, scaling.startSeconds],
    [2_048, 0.7, 1, 5],
  );
  const desired = (current: number, ...changes: Partial<Sample>[]) =>
    desiredOf(scaling, current, changes.map(sampleOf));
  assert.equal(desired(2, {}), 1);
  assert.equal(desired(2, { generations: 1_400 }), 2, "within a tenth of two");
  assert.equal(desired(2, { generations: 2_000 }), 3);
  assert.equal(desired(2, { generations: 2_000, capacity: 1_000 }), 4);
  assert.equal(desired(2, { generations: 2_000, capacity: 1 }), 15, "a tenth of the setting at least");
  assert.equal(desired(0, { generations: 2_000, workers: 0, capacity: 0 }), 3, "no worker reports");
});

test("the autoscaler expects that the load grows while a worker starts, by a quarter at most", () => {
  const scaling = { ...chartScaling("chat"), spareReplicas: 0, startSeconds: 20 };
  const desired = (...generations: number[]) =>
    desiredOf(
      scaling,
      2,
      generations.map((count, index) => sampleOf({ at: index * 20, generations: count, capacity: 100 })),
    );
  const workersFor = (generations: number) => Math.ceil(generations / (0.7 * Math.max(100, 204.8)));
  assert.equal(desired(1_000, 1_100), workersFor(1_210));
  assert.equal(desired(1_000, 4_000), workersFor(5_000));
  assert.equal(desired(4_000, 1_000), workersFor(1_000));
  assert.equal(desired(1_000), workersFor(1_000));
});

test("requests that wait for longer than a worker starts multiply the workers that were there, by two at most", () => {
  const scaling = { ...chartScaling("chat"), spareReplicas: 0 };
  const desired = (current: number, ...changes: Partial<Sample>[]) =>
    desiredOf(scaling, current, changes.map(sampleOf));
  const before = { at: 80, workers: 4, oldestWait: 30 };
  const wait = [before, { at: 85, oldestWait: 15 }, { at: 100, oldestWait: 40, workers: 6 }];
  assert.equal(desired(6, ...wait), 6);
  assert.equal(desired(4, before, { at: 85, oldestWait: 35 }, { at: 100, oldestWait: 40 }), 8);
  assert.equal(desired(4, before, { at: 85, oldestWait: 0 }, { at: 100, oldestWait: 40 }), 0);
});

test("simulated: a burst is served, slots fall slowly, the last worker ends when nothing runs, drained generations finish", () => {
  const rate = (second: number) => (second >= 300 && second < 600 ? 60 : 10);
  const { requests, waits, interrupted, workers } = simulate(
    { ...chartScaling("chat"), realCapacity: 500 },
    { seconds: 2_400, rate, generationSeconds: 30 },
  );
  assert.equal(requests, waits.length);
  assert.equal(requests, 39_000);
  assert.equal(interrupted, 0);
  const most = Math.max(...workers);
  assert.ok(most > 2 && most <= 20);
  const firstFall = workers.findIndex((count, second) => count < (workers[second - 1] ?? 0));
  assert.ok(firstFall > 600 + chartScaling("chat").stabilizationSeconds - 60);

  const images = simulate(chartScaling("image"), {
    seconds: 1_800,
    rate: (second) => (second === 60 ? 3 : 0),
    generationSeconds: 20,
  });
  assert.equal(images.requests, 3);
  assert.ok(images.waits.at(-1)! <= 40);
  assert.deepEqual([images.workers[0], Math.max(...images.workers)], [0, 1]);
});

test("simulated: a step from 0 to 5,000 streams in ten seconds, with limits below the settings and two spare workers", () => {
  const scaling = { ...chartScaling("chat"), ...stepChanges };
  assert.equal(scaling.spareReplicas, 2);
  assert.ok(scaling.realCapacity < scaling.capacity);
  // At every moment of the autoscaler's 15 seconds.
  for (let moment = 0; moment < 15; moment++) {
    const quietSeconds = 600 + moment;
    const { waits, workers, slotsNeeded, interrupted } = simulate(scaling, stepOf(quietSeconds));
    assert.deepEqual(new Set(workers.slice(0, quietSeconds)), new Set([2]));
    assert.ok(Math.max(...slotsNeeded.slice(quietSeconds, quietSeconds + 11)) > 4_900);
    assert.ok(waits.at(-1)! <= 15, `a wait of ${waits.at(-1)} s`);
    const needed = Math.ceil(5_000 / (scaling.targetUtilization * scaling.realCapacity)) + scaling.spareReplicas;
    assert.ok(Math.max(...workers) <= 1.3 * needed, `${Math.max(...workers)} workers, ${needed} are needed`);
    assert.equal(interrupted, 0);
  }
});

test("docs/kubernetes.md has the simulation's table and picture; `npm run reference` writes them", () => {
  const page = readFileSync(pageFile, "utf8");
  assert.equal(page, withTable(page));
  assert.equal(readFileSync(pictureFile, "utf8"), burstPicture());
});
