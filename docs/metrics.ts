/**
 * Generates docs/metrics.md, the page of every metric, from the programs' own registrations. `npm
 * run reference` writes it.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { collectDefaultMetrics, Registry } from "prom-client";
import { registerControlMetrics } from "../apps/control/metrics.ts";
import { registerIngressGauges } from "../apps/ingress/gauges.ts";
import { metricsSubscriber } from "../apps/ingress/observability/metrics.ts";
import { createAttemptMetrics, registerWorkerGauges } from "../apps/worker/observability/metrics.ts";
import { registerCatalogueMetrics } from "../libs/catalogue/metrics.ts";
import { registerContentMetrics } from "../libs/content/content-stream.ts";
import { registerUsageMetrics } from "../libs/ledger/metrics.ts";
import { registerRelayMetrics } from "../libs/relay/metrics.ts";
import { registerProcessMetrics } from "../libs/service/metrics.ts";
import { code, tableOf } from "./tables.ts";

export const metricsFile = join(import.meta.dirname, "metrics.md");

export const roles = ["ingress", "worker", "control"] as const;

export interface DocumentedMetric {
  name: string;
  type: string;
  labels: string[];
  help: string;
  roles: string[];
}

/** The possible values of labels. They alone bound the number of series of a process. */
export const labelBounds: Record<string, string> = {
  affinity: "`kept` or `moved`",
  again: "`yes` or `no`",
  by: "`event loop` or `memory`",
  code: "a code of the gateway's errors",
  credential: "a target of the catalogue and the name of a variable",
  dialect: "a dialect",
  direction: "`up` or `down`",
  kind: "a kind of token, or `queue` and `target` for operators' controls",
  limit: "a limit of the gateway",
  model: "a model of the catalogue; models that a wildcard passes through have its id, such as `openai/*`",
  name: "a queue or a target that an operator controls",
  outcome: "of an attempt `done`, `failed`, `cancelled` or `dropped`; of a generation `complete`, `left` or a code",
  path: "the pattern of a route, or `other`",
  protocol: "the number of the protocol that the process writes",
  queue: "a queue of the catalogue",
  role: "`ingress`, `worker` or `control`",
  scope: "`key`, `group`, `account` or `ingress`",
  state: "a state of a queue's jobs, of generations, or of an operator's control",
  status: "an HTTP status; of an upstream's response also `none`",
  target: "a target of the catalogue",
  upstream: "an upstream of the catalogue",
  version: "the version of the process, or of its catalogue",
};

/** Registers what `register` does, and reads nothing: the state behind a gauge is not there. */
function registered(register: (registry: Registry, state: never) => unknown): Omit<DocumentedMetric, "roles">[] {
  const registry = new Registry();
  const nothing = new Proxy({}, { get: () => ({}) });
  register(registry, nothing as never);
  return (registry.getMetricsAsArray() as unknown as (DocumentedMetric & { labelNames: string[] })[]).map(
    ({ name, type, help, labelNames }) => ({
      name,
      type,
      help,
      labels: labelNames.filter((label) => label !== "le" && label !== "quantile"),
    }),
  );
}

const common = [registerProcessMetrics, registerCatalogueMetrics];
const relaying = [registerRelayMetrics, registerUsageMetrics];
const ofRole: Record<(typeof roles)[number], ((registry: Registry, state: never) => unknown)[]> = {
  ingress: [...common, ...relaying, metricsSubscriber, registerIngressGauges, registerContentMetrics],
  worker: [...common, ...relaying, createAttemptMetrics, registerWorkerGauges],
  control: [...common, registerControlMetrics],
};

/** The gateway's metrics, by name. */
export function gatewayMetrics(): DocumentedMetric[] {
  const metrics = new Map<string, DocumentedMetric>();
  for (const role of roles)
    for (const metric of ofRole[role].flatMap(registered)) {
      const labels = metrics.get(metric.name);
      if (labels === undefined) metrics.set(metric.name, { ...metric, roles: [role] });
      else labels.roles.push(role);
    }
  return [...metrics.values()].sort((a, b) => a.name.localeCompare(b.name));
}

/** Metrics that prom-client registers for every process of Node.js. */
export const nodeMetrics = (): Omit<DocumentedMetric, "roles">[] =>
  registered((registry) => collectDefaultMetrics({ register: registry })).sort((a, b) => a.name.localeCompare(b.name));

const codes = (words: string[]) => words.map(code).join(", ");

/** The page's text. */
export function metricsPageOf(): string {
  return `# Metrics

\`npm run reference\` generates this page from the programs' own registrations, and a test compares it with what running processes export. Every ingress, worker and control serves its metrics at \`/metrics\` of
its operations port. [Operations](operations.md#metrics-dashboard-and-alerts) has a dashboard and alerts that use them.

Times are in seconds, sizes in bytes. A histogram has the series \`_bucket\`, \`_sum\` and \`_count\`; its buckets go from 1 ms to 300 s.

## The gateway

${tableOf(
  ["metric", "type", "labels", "processes", "meaning"],
  gatewayMetrics().map(({ name, type, labels, roles: exporting, help }) => [
    code(name),
    type,
    codes(labels),
    exporting.length === roles.length ? "all" : exporting.join(", "),
    help,
  ]),
)}

## Labels

No caller can create a label's value: a name that the gateway does not know is counted without it or under \`other\`. So the catalogue bounds the number of series. A name that leaves the catalogue stays in
counters and histograms until the process restarts.

Counters whose labels the gateway knows begin at zero, so that \`rate()\` and \`increase()\` see the first event: paths with the usual statuses, codes, queues, limits, upstreams with their usual failures, models with their kinds of
tokens. A metric begins with a thousand series at most. \`sluice_capped_usage_total\` begins with the first event.

${tableOf(
  ["label", "values"],
  Object.entries(labelBounds).map(([label, bound]) => [code(label), bound]),
)}

## Node.js

Every process also exports these metrics of Node.js and of the operating system.

${tableOf(
  ["metric", "type", "labels", "meaning"],
  nodeMetrics().map(({ name, type, labels, help }) => [code(name), type, codes(labels), help]),
)}
`;
}

if (import.meta.main) writeFileSync(metricsFile, metricsPageOf());
