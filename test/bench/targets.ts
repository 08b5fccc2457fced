/**
 * The performance targets, as ratios to the direct proxy of the same run, beside the results.
 * Nothing fails on them.
 */
import { figureOf, gridOf, numberText, type Table } from "./report.ts";

interface Target {
  text: string;
  /** Undefined when it was not measured in this run. */
  measured: number | undefined;
  bound: { atLeast: number } | { atMost: number };
}

export interface Verdict {
  target: string;
  measured: string;
  met: boolean;
}

/** Equal figures differ by less than this factor. */
const noise = 1.15;

export function verdictsOf(tables: readonly Table[]): Verdict[] {
  const figure = (table: string, labels: (string | number)[], key: string) => figureOf(tables, table, labels, key);
  const ratio = (left: number | undefined, right: number | undefined) =>
    left === undefined || right === undefined ? undefined : left / right;
  const more = (left: number | undefined, right: number | undefined) =>
    left === undefined || right === undefined ? undefined : left - right;
  const short = (callers: number, system: string, key = "requestsPerSecond") =>
    figure("short", ["at once", callers, system], key);
  const streams = (callers: number, system: string, key: string) => figure("streams", [callers, system], key);
  const open = (count: number, key: string) => figure("open-streams", [count, "sluice"], key);
  const perChunk = [10, 100, 1_000, 5_000, 10_000]
    .map((count) => open(count, "chunk"))
    .filter((value) => value !== undefined);
  const waiting = (label: string) => ratio(figure("waiting", [label], "cpu"), figure("waiting", ["none"], "cpu"));
  const translated = (dialect: string) =>
    ratio(
      figure("translated", [dialect, 300, "sluice"], "cpu"),
      figure("translated", ["openai-chat", 300, "sluice"], "cpu"),
    );

  const targets: Target[] = [
    {
      text: "short answers, 64 callers: of direct's requests/s",
      measured: ratio(short(64, "sluice"), short(64, "direct")),
      bound: { atLeast: 0.3 },
    },
    {
      text: "short answers, 256 callers: of direct's requests/s",
      measured: ratio(short(256, "sluice"), short(256, "direct")),
      bound: { atLeast: 0.45 },
    },
    {
      text: "short answers, 64 callers: times Portkey's",
      measured: ratio(short(64, "sluice"), short(64, "portkey")),
      bound: { atLeast: 2.5 },
    },
    {
      text: "short answers, 256 callers: times Portkey's",
      measured: ratio(short(256, "sluice"), short(256, "portkey")),
      bound: { atLeast: 2.5 },
    },
    {
      text: "short answers, 64 callers: requests/s (Bifrost's public bench)",
      measured: short(64, "sluice"),
      bound: { atLeast: 2_744 },
    },
    {
      text: "short answers, one caller: ms more than direct, p50",
      measured: more(short(1, "sluice", "p50Ms"), short(1, "direct", "p50Ms")),
      bound: { atMost: 1 },
    },
    {
      text: "300 streams: CPU per chunk, of direct's",
      measured: ratio(streams(300, "sluice", "cpu"), streams(300, "direct", "cpu")),
      bound: { atMost: 1.5 },
    },
    { text: "300 streams: gap p50, ms", measured: streams(300, "sluice", "gapP50"), bound: { atMost: 1.5 } },
    { text: "300 streams: gap p99, ms", measured: streams(300, "sluice", "gapP99"), bound: { atMost: 15 } },
    {
      text: "300 streams: first chunk p50, ms more than direct",
      measured: more(streams(300, "sluice", "firstP50"), streams(300, "direct", "firstP50")),
      bound: { atMost: 5 },
    },
    {
      text: "1,000 streams: of direct's chunks/s",
      measured: ratio(streams(1_000, "sluice", "chunksPerSecond"), streams(1_000, "direct", "chunksPerSecond")),
      bound: { atLeast: 1 },
    },
    {
      text: "1,000 streams: times Portkey's chunks/s",
      measured: ratio(streams(1_000, "sluice", "chunksPerSecond"), streams(1_000, "portkey", "chunksPerSecond")),
      bound: { atLeast: 2.5 },
    },
    {
      text: "translated to anthropic-messages: CPU per chunk, of verbatim's",
      measured: translated("anthropic-messages"),
      bound: { atMost: 1.5 },
    },
    {
      text: "translated to openai-responses: CPU per chunk, of verbatim's",
      measured: translated("openai-responses"),
      bound: { atMost: 1.5 },
    },
    {
      text: "an open stream on the ingress, KiB",
      measured: figure("memory", ["sluice", "ingress", 5_000], "perStream"),
      bound: { atMost: 30 },
    },
    {
      text: "an open stream on the worker, KiB",
      measured: figure("memory", ["sluice", "worker", 5_000], "perStream"),
      bound: { atMost: 40 },
    },
    {
      text: "10 to 10,000 streams: dearest chunk, of the cheapest (± 20 %)",
      measured: perChunk.length < 5 ? undefined : Math.max(...perChunk) / Math.min(...perChunk),
      bound: { atMost: 1.5 },
    },
    {
      text: "100,000 held by the ingress: the next one's CPU, of what it is without",
      measured: waiting("100,000 held by the ingress"),
      bound: { atMost: noise },
    },
    {
      text: "100,000 jobs in Redis: the next one's CPU, of what it is without",
      measured: waiting("100,000 as jobs in Redis"),
      bound: { atMost: noise },
    },
    {
      text: "5,000 open streams: the next one's CPU, of what it is at 10",
      measured: ratio(open(5_000, "cpu"), open(10, "cpu")),
      bound: { atMost: noise },
    },
  ];
  return targets.flatMap(({ text, measured, bound }) => {
    if (measured === undefined) return [];
    const [sign, value, met] =
      "atLeast" in bound
        ? ["≥", bound.atLeast, measured >= bound.atLeast]
        : ["≤", bound.atMost, measured <= bound.atMost];
    return [
      {
        target: `${text} ${sign} ${value.toLocaleString("en")}`,
        measured: numberText(measured, measured >= 100 ? 0 : 2),
        met: met as boolean,
      },
    ];
  });
}

export const verdictText = (verdicts: readonly Verdict[]): string =>
  gridOf(
    ["target", "measured", "met"],
    verdicts.map(({ target, measured, met }) => [target, measured, met ? "yes" : "no"]),
    1,
  );
