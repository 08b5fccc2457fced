/**
 * The page docs/performance.md: what the figures mean for an operator, the targets, one line for
 * each version, and the tables of a run.
 */
import type { BenchEnvironment } from "./environment.ts";
import { byProcess, cpuOf, figureOf, gridOf, numberText, type Table, textOf } from "./report.ts";
import { type Verdict, verdictText } from "./targets.ts";

export interface PageOptions {
  environment: BenchEnvironment;
  rounds: number;
  tables: readonly Table[];
  verdicts: Verdict[];
  /** The version of the gateway that was measured. */
  version: string;
  /** The page of the run before; "" if there is none. */
  pageBefore: string;
}

const historyTitle = "## History";
const historyHead = [
  "version",
  "date",
  "64 callers: of direct's requests/s",
  "CPU of a short answer, of direct's",
  "CPU of a chunk, of direct's",
  "one caller: ms above direct's",
  "1,000 streams: of direct's chunks/s",
];

export function pageOf(options: PageOptions): string {
  const { environment, rounds, tables, verdicts } = options;
  const { command, date, machine, versions, systems } = environment;
  const parts = [
    "# Performance",
    meaningOf(tables),
    ...(verdicts.length === 0 ? [] : [`## Targets\n\n${verdictText(verdicts)}`]),
    `${historyTitle}\n\nRatios to the direct proxy of the same run, so machines matter little. Control, the ledger, limits, logs and metrics are on.\n\n${historyOf(options)}`,
    `## The run\n\nMade by \`${command}\` on ${date}; each figure is the median of ${rounds} ${rounds === 1 ? "round" : "rounds"} in which every system was measured in turn, warmed up, with the others paused. ${machine}. ${versions}. The load generator and the upstream share the cores with the measured system.`,
    Object.entries(systems)
      .map(([name, what]) => `- **${name}**: ${what}`)
      .join("\n"),
    ...tables.flatMap((table) => [table, byProcess(table) ?? []].flat()).map(textOf),
  ];
  return `${parts.join("\n\n")}\n`;
}

/** The figure of a system in the tables of this run, as text; a dash where it was not measured. */
function shown(tables: readonly Table[], [table, labels, key]: Place, digits = 0): string {
  const value = figureOf(tables, table, labels, key);
  return value === undefined || Number.isNaN(value) ? "–" : numberText(value, digits);
}

type Place = [table: string, labels: (string | number)[], key: string];

const shortOf = (callers: number, system: string, key: string): Place => ["short", ["at once", callers, system], key];
const streamsOf = (callers: number, system: string, key: string): Place => ["streams", [callers, system], key];

/** In plain words: what the gateway costs and gives, and when it needs more workers. */
function meaningOf(tables: readonly Table[]): string {
  const text = (place: Place, digits?: number) => shown(tables, place, digits);
  return [
    `A model takes from half a second to a minute to answer. The gateway adds ${text(shortOf(1, "sluice", "p50Ms"), 1)} ms to a short answer of a lone caller, where a bare proxy adds ${text(shortOf(1, "direct", "p50Ms"), 1)} ms. That is what the way through the queue takes: for it, a request survives the death of any process, waits in place of being refused, and is in the ledger once.`,
    `Its price is processor time. On two cores, which callers and upstream share with it, one ingress and one worker answer ${text(shortOf(64, "sluice", "requestsPerSecond"))} short requests a second for 64 callers (a bare proxy: ${text(shortOf(64, "direct", "requestsPerSecond"))}), at ${text(shortOf(64, "sluice", "cpu"))} µs each: ${text(shortOf(64, "sluice", `${cpuOf}ingress`))} in the ingress, ${text(shortOf(64, "sluice", `${cpuOf}worker`))} in the worker, ${text(shortOf(64, "sluice", `${cpuOf}redis`))} in Redis, ${text(shortOf(64, "sluice", `${cpuOf}control`))} in control for the ledger. A chunk of a stream costs ${text(streamsOf(300, "sluice", "cpu"))} µs (a bare proxy: ${text(streamsOf(300, "direct", "cpu"))}), so a stream of 50 tokens a second takes about ${perMille(tables)} thousandths of a core.`,
    `**When to add workers.** One worker uses one core. It is full when \`sluice_worker_saturated\` is 1 or requests wait although its slots are free; \`sluice_generations\` in the state \`waiting\` says how many. Two workers and two ingresses need four cores; more processes than cores make each of them slower. Redis takes much less than a worker (the tables say how much), so one server is enough for several. [Queues and scaling](queues-and-scaling.md) has the settings.`,
  ].join("\n\n");
}

/** Thousandths of a core that a stream of 50 chunks a second takes. */
function perMille(tables: readonly Table[]): string {
  const chunk = figureOf(tables, ...streamsOf(300, "sluice", "cpu"));
  return chunk === undefined ? "–" : numberText((chunk * 50) / 1_000, 1);
}

/** The earlier lines, and that of this run; the same version and date has one line. */
function historyOf({ environment: { date }, tables, version, pageBefore }: PageOptions): string {
  const ratio = (left: Place, right: Place) => {
    const [above, below] = [figureOf(tables, ...left), figureOf(tables, ...right)];
    return above === undefined || below === undefined ? "–" : numberText(above / below, 2);
  };
  const more = (left: Place, right: Place) => {
    const [above, below] = [figureOf(tables, ...left), figureOf(tables, ...right)];
    return above === undefined || below === undefined ? "–" : numberText(above - below, 2);
  };
  const line = [
    version,
    date,
    ratio(shortOf(64, "sluice", "requestsPerSecond"), shortOf(64, "direct", "requestsPerSecond")),
    ratio(shortOf(64, "sluice", "cpu"), shortOf(64, "direct", "cpu")),
    ratio(streamsOf(300, "sluice", "cpu"), streamsOf(300, "direct", "cpu")),
    more(shortOf(1, "sluice", "p50Ms"), shortOf(1, "direct", "p50Ms")),
    ratio(streamsOf(1_000, "sluice", "chunksPerSecond"), streamsOf(1_000, "direct", "chunksPerSecond")),
  ];
  const earlier = earlierLines(pageBefore).filter(([name, day]) => name !== version || day !== date);
  return gridOf(historyHead, [...earlier, line], 2);
}

function earlierLines(page: string): string[][] {
  const from = page.indexOf(historyTitle);
  if (from < 0) return [];
  const section = page.slice(from + historyTitle.length).split("\n## ")[0] as string;
  return section
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}
