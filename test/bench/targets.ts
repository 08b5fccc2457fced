/**
 * The performance targets, most of them as ratios to the direct proxy of the same run, beside the
 * results. Nothing fails on them.
 */
import { fanOutSizes } from "./fan-out.ts";
import { ledgerCases } from "./ledger.ts";
import { cpuOf, figureOf, gridOf, numberText, type Table } from "./report.ts";

interface Target {
  text: string;
  /** Undefined when it was not measured in this run. */
  measured: number | undefined;
  /** Whether a larger figure is better. */
  isFloor?: boolean;
  must: number;
  aim?: number;
}

export interface Verdict {
  target: string;
  must: string;
  aim: string;
  measured: string;
  met: "aim" | "yes" | "no";
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
  const sum = (values: (number | undefined)[]) =>
    values.some((value) => value === undefined)
      ? undefined
      : values.reduce<number>((all, value) => all + (value ?? 0), 0);
  const shortCpu = (system: string, processes: string[]) =>
    ratio(sum(processes.map((name) => short(64, system, `${cpuOf}${name}`))), short(64, "direct", "cpu"));
  const partCpu = (system: string, processes: string[]) => {
    const part = (of: string, key: string) => figure("parts-short", ["at once", 64, of], key);
    return ratio(sum(processes.map((name) => part(system, `${cpuOf}${name}`))), part("direct", "cpu"));
  };
  const redisCpuOfStream = (label: string) => figure("fan-out", [label], `${cpuOf}redis`);
  const idle = tables
    .filter(({ key }) => key === "idle")
    .flatMap(({ rows }) => rows.flatMap(({ labels }) => figure("idle", [...labels], "commandsOfOne") ?? []));
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
      isFloor: true,
      must: 0.5,
      aim: 0.65,
    },
    {
      text: "short answers, 256 callers: of direct's requests/s",
      measured: ratio(short(256, "sluice"), short(256, "direct")),
      isFloor: true,
      must: 0.7,
      aim: 0.85,
    },
    {
      text: "short answers, 64 callers: CPU of ingress, worker and Redis, of direct's",
      measured: shortCpu("sluice", ["ingress", "worker", "redis"]),
      must: 2.2,
      aim: 1.8,
    },
    {
      text: "short answers, 64 callers: CPU of control with its embedded database, of direct's",
      measured: shortCpu("sluice", ["control"]),
      must: 0.5,
      aim: 0.3,
    },
    {
      text: "short answers, 64 callers: CPU of control and its PostgreSQL, of direct's",
      measured: partCpu("sluice-postgres", ["control", "postgres"]),
      must: 0.5,
      aim: 0.3,
    },
    {
      text: "one caller: ms more than direct, p50",
      measured: more(short(1, "sluice", "p50Ms"), short(1, "direct", "p50Ms")),
      must: 0.5,
      aim: 0.3,
    },
    { text: "one caller: CPU µs in all", measured: short(1, "sluice", "cpu"), must: 700, aim: 500 },
    {
      text: "300 streams: CPU per chunk, of direct's",
      measured: ratio(streams(300, "sluice", "cpu"), streams(300, "direct", "cpu")),
      must: 1.8,
      aim: 1.5,
    },
    {
      text: "300 streams: first chunk p50, ms more than direct",
      measured: more(streams(300, "sluice", "firstP50"), streams(300, "direct", "firstP50")),
      must: 1.5,
      aim: 1,
    },
    {
      text: "300 streams: delay p99, of direct's",
      measured: ratio(streams(300, "sluice", "delayP99"), streams(300, "direct", "delayP99")),
      must: 4,
      aim: 2.5,
    },
    {
      text: "1,000 streams: of direct's streams/s",
      measured: ratio(streams(1_000, "sluice", "chunksPerSecond"), streams(1_000, "direct", "chunksPerSecond")),
      isFloor: true,
      must: 0.85,
      aim: 0.95,
    },
    { text: "1,000 streams: first chunk p50, ms", measured: streams(1_000, "sluice", "firstP50"), must: 150, aim: 60 },
    {
      text: "a stream's Redis CPU, 3 ingresses and 4 workers: of one pair's",
      measured: ratio(redisCpuOfStream(fanOutSizes.several), redisCpuOfStream(fanOutSizes.pair)),
      must: 1.3,
      aim: 1.2,
    },
    {
      text: "idle, at any number of processes: Redis commands/s per process",
      measured: idle.length === 0 ? undefined : Math.max(...idle),
      must: 20,
      aim: 10,
    },
    ...Object.values(ledgerCases).map((label) => ({
      text: `ledger (${label}): longest lag during short answers, s`,
      measured: figure("ledger", [label], "lag"),
      must: 2,
      aim: 1,
    })),
    {
      text: "short answers, 64 callers: times Portkey's",
      measured: ratio(short(64, "sluice"), short(64, "portkey")),
      isFloor: true,
      must: 2.5,
    },
    {
      text: "short answers, 256 callers: times Portkey's",
      measured: ratio(short(256, "sluice"), short(256, "portkey")),
      isFloor: true,
      must: 2.5,
    },
    {
      text: "short answers, 64 callers: requests/s (Bifrost's public bench)",
      measured: short(64, "sluice"),
      isFloor: true,
      must: 2_744,
    },
    { text: "300 streams: gap p50, ms", measured: streams(300, "sluice", "gapP50"), must: 1.5 },
    { text: "300 streams: gap p99, ms", measured: streams(300, "sluice", "gapP99"), must: 15 },
    {
      text: "1,000 streams: times Portkey's chunks/s",
      measured: ratio(streams(1_000, "sluice", "chunksPerSecond"), streams(1_000, "portkey", "chunksPerSecond")),
      isFloor: true,
      must: 2.5,
    },
    {
      text: "translated to anthropic-messages: CPU per chunk, of verbatim's",
      measured: translated("anthropic-messages"),
      must: 1.5,
    },
    {
      text: "translated to openai-responses: CPU per chunk, of verbatim's",
      measured: translated("openai-responses"),
      must: 1.5,
    },
    {
      text: "an open stream on the ingress, KiB",
      measured: figure("memory", ["sluice", "ingress", 5_000], "perStream"),
      must: 30,
    },
    {
      text: "an open stream on the worker, KiB",
      measured: figure("memory", ["sluice", "worker", 5_000], "perStream"),
      must: 40,
    },
    {
      text: "10 to 10,000 streams: dearest chunk, of the cheapest (± 20 %)",
      measured: perChunk.length < 5 ? undefined : Math.max(...perChunk) / Math.min(...perChunk),
      must: 1.5,
    },
    {
      text: "100,000 held by the ingress: the next one's CPU, of what it is without",
      measured: waiting("100,000 held by the ingress"),
      must: noise,
    },
    {
      text: "100,000 jobs in Redis: the next one's CPU, of what it is without",
      measured: waiting("100,000 as jobs in Redis"),
      must: noise,
    },
    {
      text: "5,000 open streams: the next one's CPU, of what it is at 10",
      measured: ratio(open(5_000, "cpu"), open(10, "cpu")),
      must: noise,
    },
  ];
  return targets.flatMap(({ text, measured, isFloor = false, must, aim }) => {
    if (measured === undefined) return [];
    const meets = (bound: number) => (isFloor ? measured >= bound : measured <= bound);
    const boundText = (bound: number) => `${isFloor ? "≥" : "≤"} ${bound.toLocaleString("en")}`;
    return [
      {
        target: text,
        must: boundText(must),
        aim: aim === undefined ? "" : boundText(aim),
        measured: numberText(measured, measured >= 100 ? 0 : 2),
        met: aim !== undefined && meets(aim) ? ("aim" as const) : meets(must) ? ("yes" as const) : ("no" as const),
      },
    ];
  });
}

export const verdictText = (verdicts: readonly Verdict[]): string =>
  gridOf(
    ["target", "must", "aim", "measured", "met"],
    verdicts.map(({ target, must, aim, measured, met }) => [target, must, aim, measured, met]),
    1,
  );
