/**
 * What each part of the gateway costs: the difference between the gateway as `npm start` runs it
 * and the same gateway without the part, or with it, in the same run.
 *
 * Usage records cannot be switched off: without control they are written to Redis all the same, and
 * stay there. Nor can metrics, whose code is measured by itself.
 */

import { eventCost } from "./event-cost.ts";
import { type FreshCase, withFresh } from "./fresh.ts";
import { startScript } from "./processes.ts";
import { cpuOf, figureOf, median, record, rowOf, type Table } from "./report.ts";
import type { Bench } from "./rounds.ts";
import { measureShortCases } from "./short-answers.ts";
import { measureStreamCounts } from "./streams.ts";
import { isPresent } from "./system.ts";

const whole = "sluice";

interface Part extends FreshCase {
  part: string;
  /** Whether the system has the part, which the whole gateway lacks. */
  isAddition: boolean;
}

const partsOf = (collectorUrl: string): Part[] => [
  {
    name: "sluice-no-ledger",
    part: "control and its ledger",
    isAddition: false,
    options: { controls: 0 },
  },
  { name: "sluice-no-limits", part: "a key's limits", isAddition: false, options: { group: "default" } },
  { name: "sluice-no-log", part: "log", isAddition: false, options: { environment: { LOG_LEVEL: "silent" } } },
  {
    name: "sluice-traces",
    part: "traces, all sampled",
    isAddition: true,
    options: { environment: { OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl } },
  },
  {
    name: "sluice-postgres",
    part: "PostgreSQL in place of the embedded database",
    isAddition: true,
    options: { database: "postgres" },
  },
];

/** The CPU time by process that a part adds. */
function costOf(table: Table, labels: (system: string) => (string | number)[], { name, isAddition }: Part) {
  const rows = [name, whole].map((system) => rowOf(table, labels(system)));
  const keys = [...new Set(rows.flatMap(({ figures }) => Object.keys(figures)))];
  const costs = keys
    .filter((key) => key === "cpu" || key.startsWith(cpuOf))
    .map((key) => {
      const [own = 0, reference = 0] = [name, whole].map((system) => figureOf([table], table.key, labels(system), key));
      return [key, isAddition ? own - reference : reference - own];
    });
  return Object.fromEntries(costs) as Record<string, number>;
}

/** Less than in a busy process, where the code is cold in the processor's caches. */
async function metricsCost(requests: number): Promise<number> {
  const costs = { none: [] as number[], metrics: [] as number[] };
  for (let round = 0; round < 9; round++)
    for (const kind of ["none", "metrics"] as const) costs[kind].push(await eventCost(kind, requests));
  return median(costs.metrics.slice(2)) - median(costs.none.slice(2));
}

export async function measureParts(bench: Bench): Promise<Table[]> {
  const callers = bench.quick ? 16 : 64;
  const streams = bench.quick ? 64 : 300;
  const collector = await startScript("test/bench/trace-collector.ts");
  const tables: Table[] = [];
  try {
    const parts = partsOf(collector.urls.api as string);
    await withFresh(bench, [{ name: whole, options: {} }, ...parts], async (fresh) => {
      const direct = bench.systems.filter(isPresent).filter(({ name }) => name === "direct");
      const turns = { ...bench, systems: [...direct, ...fresh] };
      const short = await measureShortCases(turns, {
        paces: ["at once"],
        callers: [callers],
        seconds: bench.quick ? 1 : 4,
      });
      const streamed = await measureStreamCounts(turns, [streams]);
      tables.push(
        { ...short, key: "parts-short", title: "Parts: short answers" },
        { ...streamed, key: "parts-streams", title: "Parts: streams" },
      );
    });
    const [short, streamed] = tables as [Table, Table];
    const columns = (head: string, key: string) => ({ key, head, digits: 1 });
    const costs: Table = {
      key: "part-costs",
      title: "Cost by part",
      notes: [
        `What a part adds to the CPU time of a short answer (${callers} callers) and of a chunk (${streams} streams): the difference of two gateways in the tables above. Each is a start of its own, so differences of less than a tenth of the whole are noise. Metrics and usage records have no switch: the metrics' events are measured in a loop, where they cost less than in a busy process; without control, usage records stay in Redis.`,
      ],
      labels: ["part", "of"],
      columns: [columns("CPU µs", "cpu")],
      rows: [],
    };
    const present = parts.filter(({ name }) => short.rows.some(({ labels }) => labels.includes(name)));
    for (const part of present) {
      record(
        costs,
        [part.part, "a short answer"],
        costOf(short, (system) => ["at once", callers, system], part),
      );
      record(
        costs,
        [part.part, "a chunk"],
        costOf(streamed, (system) => [streams, system], part),
      );
    }
    record(costs, ["metrics, their code in a loop", "a short answer"], {
      cpu: await metricsCost(bench.quick ? 500 : 5_000),
    });
    return [...tables, costs];
  } finally {
    await collector.stop();
  }
}
