/**
 * What each part of the gateway costs: the difference between the gateway as `npm start` runs it
 * and the same gateway without the part, or with it, in the same run.
 *
 * Metrics and usage records cannot be switched off. Without control the usage records are written
 * to Redis all the same, and stay there.
 */

import { type FreshCase, withFresh } from "./fresh.ts";
import { startScript } from "./processes.ts";
import { cpuOf, figureOf, record, rowOf, type Table } from "./report.ts";
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
        `What a part adds to the CPU time of a short answer (${callers} callers) and of a chunk (${streams} streams): the difference of two gateways in the tables above. Each is a start of its own, so differences of less than a tenth of the whole are noise. Metrics and usage records have no switch; without control, usage records stay in Redis.`,
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
    return [...tables, costs];
  } finally {
    await collector.stop();
  }
}
