/** Short answers: how many a second, how long each takes, and what it costs. */
import { chatBodyOf, chatPath, runShort } from "./load.ts";
import { record, type Table } from "./report.ts";
import { type Bench, cpuWithLedger, interleaved, meterOf, perOne } from "./rounds.ts";

export const shortModels = { "at once": "short-0", "20 ms": "short-20" };

export interface ShortCases {
  paces: readonly (keyof typeof shortModels)[];
  callers: readonly number[];
  seconds: number;
}

export const measureShortAnswers = (bench: Bench): Promise<Table> =>
  measureShortCases(bench, {
    paces: ["at once", "20 ms"],
    callers: bench.quick ? [16] : [1, 16, 64, 256],
    seconds: bench.quick ? 1 : 2,
  });

export async function measureShortCases(bench: Bench, { paces, callers, seconds }: ShortCases): Promise<Table> {
  const table: Table = {
    key: "short",
    title: "Short answers",
    notes: [
      "Whole answers from an upstream that answers at once or after 20 ms. Each caller sends its next request as soon as it is answered (wrk).",
      "CPU is of all of a system's processes, Redis included; of control and its database until every usage record is in the ledger.",
    ],
    labels: ["upstream answers", "callers", "system"],
    columns: [
      { key: "requestsPerSecond", head: "requests/s", digits: 0 },
      { key: "p50Ms", head: "p50 ms", digits: 2 },
      { key: "p99Ms", head: "p99 ms", digits: 2 },
      { key: "cpu", head: "CPU µs/request", digits: 0 },
    ],
    rows: [],
  };
  for (const pace of paces)
    for (const connections of callers)
      await interleaved(
        bench,
        `short answers ${pace}, ${connections} callers`,
        async (system) => {
          const bodies = [chatBodyOf(shortModels[pace])];
          const meter = meterOf(system);
          const result = await runShort({ system, path: chatPath, bodies, connections, seconds });
          const { p50Ms, p99Ms, requests, errors } = result;
          const figures =
            requests === 0 ? {} : { p50Ms, p99Ms, ...perOne(await cpuWithLedger(system, meter), requests) };
          record(
            table,
            [pace, connections, system.name],
            { requestsPerSecond: requests / result.seconds, ...figures },
            errors,
          );
        },
        (system, fault) => record(table, [pace, connections, system], {}, [fault]),
      );
  return table;
}
