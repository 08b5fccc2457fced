import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { gatewayMetrics, labelBounds, metricsFile, metricsPageOf } from "../docs/metrics.ts";
import { dashboardFile, dashboardOf } from "../infra/grafana/dashboard.ts";
import { cases } from "./infra/alert-cases.ts";
import { alerts, runbooks, usesOf } from "./infra/promql.ts";

const root = join(import.meta.dirname, "..");

/** As GitHub makes them from headings. */
const anchorsOf = (file: string) =>
  [...readFileSync(join(root, file), "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );

test("the page of metrics and the dashboard match the code; `npm run reference` writes them", () => {
  assert.equal(readFileSync(metricsFile, "utf8"), metricsPageOf());
  assert.equal(readFileSync(dashboardFile, "utf8"), dashboardOf());
});

test("every label of a metric has a documented bound, and every bound is of a label in use", () => {
  const labels = new Set(gatewayMetrics().flatMap((metric) => metric.labels));
  assert.deepEqual([...labels].sort(), Object.keys(labelBounds));
});

test("every alert has a severity, a summary, and a runbook that exists", () => {
  assert.ok(alerts.length >= 25);
  assert.equal(new Set(alerts.map(({ alert }) => alert)).size, alerts.length);
  for (const { alert, labels, annotations } of alerts) {
    assert.match(labels.severity, /^(page|ticket)$/, alert);
    assert.ok(annotations.summary.length > 20, alert);
    const [page, anchor = ""] = annotations.runbook_url.split("#");
    assert.equal(page, runbooks, alert);
    assert.ok(anchorsOf("docs/operations.md").includes(anchor), `${alert}: ${annotations.runbook_url} does not exist`);
  }
});

test("every alert has cases in which it fires and in which it stays silent", () => {
  const expectations = cases.flatMap((one) => one.expectations);
  const names = (isFiring: boolean) =>
    new Set(expectations.filter(({ firing }) => (firing !== undefined) === isFiring).map(({ alert }) => alert));
  for (const isFiring of [true, false])
    assert.deepEqual([...names(isFiring)].sort(), alerts.map(({ alert }) => alert).sort(), `firing: ${isFiring}`);
});

test("no expression of an alert reads series of other jobs", () => {
  for (const { alert, expr } of alerts) {
    const { uses } = usesOf(expr);
    assert.ok(uses.length > 0, alert);
    for (const { metric } of uses) {
      const selectors = expr.matchAll(new RegExp(`\\b${metric}(\\{[^}]*\\})?`, "g"));
      for (const [text, matchers = ""] of selectors) assert.ok(matchers.includes('job="sluice"'), `${alert}: ${text}`);
    }
  }
});

test("every runbook is of an alert", () => {
  const text = readFileSync(join(root, "docs/operations.md"), "utf8");
  const runbooks = text.slice(text.indexOf("\n## Runbooks\n"), text.indexOf("\n## Data at rest\n"));
  const used = new Set(alerts.map(({ annotations }) => annotations.runbook_url.split("#")[1]));
  const unused = [...runbooks.matchAll(/^### (.+)$/gm)]
    .map(([, heading = ""]) => heading.toLowerCase().replaceAll(" ", "-"))
    .filter((anchor) => !used.has(anchor));
  assert.deepEqual(unused, []);
});

test("the metrics and labels of an expression are found", () => {
  const expression =
    'sum by (queue) (rate(a_total{queue=~"$queue", state!="x"}[5m])) / on (queue) group_left (role) (b{} > 0.5) unless c or vector(0)';
  assert.deepEqual(usesOf(expression), {
    uses: [
      { metric: "a_total", labels: ["queue", "state"] },
      { metric: "b", labels: [] },
      { metric: "c", labels: [] },
    ],
    grouping: ["queue", "queue", "role"],
  });
});

test("Alertmanager's configuration names alerts and receivers that exist, and the compose file mounts it", () => {
  const textOf = (file: string) => readFileSync(join(root, file), "utf8");
  const { route, receivers, inhibit_rules } = parse(textOf("infra/prometheus/alertmanager.yml")) as {
    route: { receiver: string; routes: { receiver: string; matchers: string[] }[] };
    receivers: { name: string }[];
    inhibit_rules: { source_matchers: string[]; target_matchers: string[] }[];
  };
  const names = receivers.map(({ name }) => name);
  assert.deepEqual([...route.routes.map(({ receiver }) => receiver), route.receiver], names);
  assert.deepEqual(route.routes[0]?.matchers, ['severity = "page"']);
  const alertNames = new Set(alerts.map(({ alert }) => alert));
  const matchers = inhibit_rules.flatMap(({ source_matchers, target_matchers }) => [
    ...source_matchers,
    ...target_matchers,
  ]);
  assert.ok(matchers.length > 4);
  for (const matcher of matchers)
    for (const name of /"(.+)"/.exec(matcher)?.[1]?.split("|") ?? []) assert.ok(alertNames.has(name), name);
  assert.match(textOf("docker-compose.yml"), /\$\{ALERTMANAGER_CONFIG:-\.\/infra\/prometheus\/alertmanager\.yml\}:/);
});
