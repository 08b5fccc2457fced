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
  simulate,
  withTable,
} from "../../infra/kubernetes/scaling.ts";
import { secretsFile, secretsText } from "../../infra/kubernetes/secrets.ts";
import { chart, chartText, defaultValues, documentedVariables, type Json, valuesSchema } from "./chart.ts";
import { textOf } from "./compose.ts";

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
  const metrics = textOf("apps/ingress/observability/metrics.ts");
  for (const [name] of templates.matchAll(/\bsluice_\w+/g)) assert.ok(metrics.includes(`"${name}"`), name);
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

test("the autoscaler's number: slots that are needed over 0.7 of a worker's, more after long waits, with a tolerance", () => {
  const scaling = chartScaling("chat");
  assert.deepEqual([scaling.capacity, scaling.targetUtilization], [512, 0.7]);
  const desired = (workers: number, generations: number, oldestWait = 0) =>
    desiredOf(scaling, workers, generations, oldestWait);
  assert.equal(desired(2, 0), 0);
  assert.equal(desired(2, 700), 2);
  assert.equal(desired(2, 780), 2, "within a tenth of what two workers are for");
  assert.equal(desired(2, 800), 3);
  assert.equal(desired(2, 3_584), 10);
  assert.equal(desired(4, 100, 20), 8, "twice the wait that is accepted");
});

test("simulated: a burst is served, slots fall slowly, the last worker ends when nothing runs, drained generations finish", () => {
  const rate = (second: number) => (second >= 300 && second < 600 ? 60 : 10);
  const { requests, waits, interrupted, workers } = simulate(chartScaling("chat"), {
    seconds: 2_400,
    rate,
    generationSeconds: 30,
  });
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

test("docs/kubernetes.md has the simulation's table and picture; `npm run reference` writes them", () => {
  const page = readFileSync(pageFile, "utf8");
  assert.equal(page, withTable(page));
  assert.equal(readFileSync(pictureFile, "utf8"), burstPicture());
});
