/** The report of a chaos run: its figures as JSON and Markdown, and plots as SVG. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ChaosResult } from "./chaos.ts";
import { plotOf } from "./plot.ts";

export async function writeReport(directory: string, result: ChaosResult): Promise<void> {
  await mkdir(directory, { recursive: true });
  const { calls, ...rest } = result;
  await writeFile(join(directory, "result.json"), JSON.stringify({ ...rest, outcomes: outcomesOf(result) }, null, 1));
  await writeFile(join(directory, "report.md"), textOf(result));
  for (const [name, svg] of Object.entries(plotsOf(result))) await writeFile(join(directory, `${name}.svg`), svg);
}

const outcomeNames = ["complete", "refused", "failed", "cut", "left", "wrong"] as const;

/** Calls by kind and outcome. */
function outcomesOf({ calls }: ChaosResult): Record<string, Record<string, number>> {
  const kinds: Record<string, Record<string, number>> = {};
  for (const { kind, outcome } of calls) {
    kinds[kind] ??= {};
    kinds[kind][outcome] = (kinds[kind][outcome] ?? 0) + 1;
  }
  return kinds;
}

const row = (cells: readonly (string | number)[]) => `| ${cells.join(" | ")} |`;
const inSeconds = (ms: number) => (ms / 1_000).toFixed(1);

function textOf(result: ChaosResult): string {
  const { options, struck, calls, violations, upstreamRequests, records, isWhole } = result;
  const byFault = Map.groupBy(struck, ({ name }) => name);
  const faultRows = [...byFault]
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([name, all]) => {
      const recoveries = all.map(({ healedAt, healthyAt }) => healthyAt - healedAt);
      return row([name, all.length, inSeconds(Math.max(...recoveries))]);
    });
  const outcomes = Object.entries(outcomesOf(result)).sort(([one], [other]) => one.localeCompare(other));
  return [
    ...(isWhole ? [] : ["The run was stopped: the ledger, and what is left over, were not checked.", ""]),
    `Topology ${options.topology}, seed ${options.seed}, ${options.minutes} minutes, ${options.callers} callers: ${calls.length} calls, ${result.batches} batches, ${upstreamRequests} requests of the upstream, ${result.doneAgain} answers produced again after a fault, ${records} usage records, ${struck.length} faults, ${violations.length} broken promises.`,
    "",
    row(["fault", "times", "slowest recovery, s"]),
    "| --- | ---: | ---: |",
    ...faultRows,
    "",
    row(["call", ...outcomeNames]),
    `| --- |${" ---: |".repeat(outcomeNames.length)}`,
    ...outcomes.map(([kind, counts]) => row([kind, ...outcomeNames.map((name) => counts[name] ?? 0)])),
    "",
    ...violations.map((violation) => `- ${violation}`),
    "",
  ].join("\n");
}

function plotsOf({ samples, struck, options, startedAt: began }: ChaosResult): Record<string, string> {
  const names = [...new Set(samples.flatMap(({ memoryMiB }) => Object.keys(memoryMiB)))];
  const lines = (value: (sample: ChaosResult["samples"][number], name: string) => number | undefined) =>
    names.map((name) => ({ name, points: samples.map((sample) => [sample.at, value(sample, name)] as const) }));
  const marks = struck.map(({ startedAt }) => (startedAt - began) / 1_000);
  const title = (what: string) => `${what}, ${options.topology}, seed ${options.seed}`;
  return {
    memory: plotOf({
      title: title("Memory of each process, MiB"),
      lines: lines(({ memoryMiB }, name) => memoryMiB[name]),
      marks,
    }),
    "open-files": plotOf({
      title: title("Open files and sockets of each process"),
      lines: lines(({ openFiles }, name) => openFiles[name]),
      marks,
    }),
    redis: plotOf({
      title: title("Redis: memory in MiB, keys, clients (all primaries)"),
      lines: [
        { name: "memory, MiB", points: samples.map(({ at, redis }) => [at, redis.memoryMiB] as const) },
        { name: "keys", points: samples.map(({ at, redis }) => [at, redis.keys] as const) },
        { name: "clients", points: samples.map(({ at, redis }) => [at, redis.clients] as const) },
      ],
      marks,
    }),
  };
}
