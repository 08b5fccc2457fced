/**
 * The measures of usage: values of sums as the API gives them. Amounts of money become
 * numbers for a plot's heights only.
 */
import type { topMeasures } from "#api/usage.ts";
import type { Sums } from "./usage-types.ts";

export const measureNames = [
  "cost",
  "requests",
  "tokens",
  "inputTokens",
  "outputTokens",
  "cachedInputTokens",
  "reasoningTokens",
  "images",
  "errors",
  "errorRate",
  "cacheRate",
  "cacheSaving",
  "firstContentMs",
  "durationMs",
  "upstreamCost",
  "margin",
] as const;
export type MeasureName = (typeof measureNames)[number];
type PartName =
  | "answered"
  | "refused"
  | "failed"
  | "plainInput"
  | "cacheRead"
  | "cacheWrite"
  | "plainOutput"
  | "reasoning";

export interface Measure {
  unit: "money" | "count" | "percent" | "ms";
  /** Null without anything to measure, such as the latency without requests. */
  value(sums: Sums): number | null;
  /** Groups add up to the total, so they may be stacked. */
  isAdditive: boolean;
  topBy: (typeof topMeasures)[number];
  /** Its components, where they are not obvious. */
  parts?: readonly [PartName, (sums: Sums) => number][];
  isFor?: "operator";
}

const count = (topBy: Measure["topBy"], value: (sums: Sums) => number, parts?: Measure["parts"]): Measure => ({
  unit: "count",
  value,
  isAdditive: true,
  topBy,
  ...(parts && { parts }),
});
const rate = (part: (sums: Sums) => number, whole: (sums: Sums) => number): Measure => ({
  unit: "percent",
  value: (sums) => (whole(sums) === 0 ? null : part(sums) / whole(sums)),
  isAdditive: false,
  topBy: "requests",
});
const mean = (name: "firstContentMs" | "durationMs"): Measure => ({
  unit: "ms",
  value: (sums) => sums[name],
  isAdditive: false,
  topBy: "requests",
});
const money = (name: "cost" | "cacheSaving" | "upstreamCost" | "margin", isAdditive = true): Measure => ({
  unit: "money",
  value: (sums) => (sums[name] === null ? null : Number(sums[name])),
  isAdditive,
  topBy: "cost",
  ...(name !== "cost" && name !== "cacheSaving" && { isFor: "operator" }),
});
const errors = (sums: Sums) => sums.refused + sums.failed;
const failures = [
  ["refused", (sums: Sums) => sums.refused],
  ["failed", (sums: Sums) => sums.failed],
] as const satisfies Measure["parts"];

export const measures: Record<MeasureName, Measure> = {
  cost: money("cost"),
  requests: count("requests", (sums) => sums.requests, [
    ["answered", (sums) => sums.requests - errors(sums)],
    ...failures,
  ]),
  tokens: count("tokens", (sums) => sums.inputTokens + sums.outputTokens, [
    ["plainInput", (sums) => Math.max(0, sums.inputTokens - sums.cachedInputTokens - sums.cacheWriteTokens)],
    ["cacheRead", (sums) => sums.cachedInputTokens],
    ["cacheWrite", (sums) => sums.cacheWriteTokens],
    ["plainOutput", (sums) => Math.max(0, sums.outputTokens - sums.reasoningTokens)],
    ["reasoning", (sums) => sums.reasoningTokens],
  ]),
  inputTokens: count("inputTokens", (sums) => sums.inputTokens),
  outputTokens: count("outputTokens", (sums) => sums.outputTokens),
  cachedInputTokens: count("cachedInputTokens", (sums) => sums.cachedInputTokens),
  reasoningTokens: count("reasoningTokens", (sums) => sums.reasoningTokens),
  images: count("images", (sums) => sums.images),
  errors: count("errors", errors, failures),
  errorRate: rate(errors, (sums) => sums.requests),
  cacheRate: rate(
    (sums) => sums.cachedInputTokens,
    (sums) => sums.inputTokens,
  ),
  // More may be paid for writing than reading saves, and a stack cannot show what is below zero.
  cacheSaving: money("cacheSaving", false),
  firstContentMs: mean("firstContentMs"),
  durationMs: mean("durationMs"),
  upstreamCost: money("upstreamCost"),
  // A loss is below zero, which a stack cannot show.
  margin: money("margin", false),
};

/** The relative change to an earlier value; null where there is nothing to compare with. */
export const changeOf = (now: number | null, before: number | null): number | null =>
  now === null || before === null || before === 0 ? null : (now - before) / Math.abs(before);
