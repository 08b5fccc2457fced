/**
 * Reads which metrics and labels an expression of Prometheus uses. promtool checks the syntax
 * (monitoring.long.ts).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { rows } from "../../infra/grafana/dashboard.ts";

export interface Use {
  metric: string;
  /** The labels in the metric's selector. */
  labels: string[];
}

export interface ExpressionUse {
  uses: Use[];
  /** That results are grouped, matched or named by. */
  grouping: string[];
}

const keywords = new Set([
  "and",
  "or",
  "unless",
  "bool",
  "by",
  "without",
  "on",
  "ignoring",
  "group_left",
  "group_right",
]);
const grouped = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;
const selector = /([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?(?!\s*\(|\w)/g;
const wordsOf = (list: string) =>
  list
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");

export function usesOf(expression: string): ExpressionUse {
  const grouping = [...expression.matchAll(grouped)].flatMap(([, list = ""]) => wordsOf(list));
  const plain = expression
    .replaceAll(/"[^"]*"/g, '""')
    .replaceAll(grouped, " ")
    .replaceAll(/\[[^\]]*\]|\boffset \w+/g, " ");
  const uses = [...plain.matchAll(selector)]
    .filter(([, metric = ""]) => !keywords.has(metric))
    .map(([, metric = "", matchers = ""]) => ({
      metric,
      labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label = ""]) => label),
    }));
  return { uses, grouping };
}

export interface Alert {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
}

/** The page of the runbooks, where Prometheus has no external label that names another. */
export const runbooks = '{{ or $externalLabels.sluice_runbooks "docs/operations.md" }}';
export const alertsFile = join(import.meta.dirname, "../../infra/prometheus/alerts.yml");
export const alerts = (parse(readFileSync(alertsFile, "utf8")) as { groups: { rules: Alert[] }[] }).groups.flatMap(
  ({ rules }) => rules,
);

/** The expressions of the dashboard and of the alerts, with the labels that their texts name. */
export const expressions: { where: string; expr: string; named: string[] }[] = [
  ...rows.flatMap(({ title: row, panels }) =>
    panels.flatMap(({ title, queries }) =>
      queries.map(({ expr, legend }) => ({
        where: `${row}: ${title}`,
        expr,
        named: [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label),
      })),
    ),
  ),
  ...alerts.map(({ alert, expr, annotations: { summary } }) => ({
    where: alert,
    expr,
    named: [...summary.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label),
  })),
];
