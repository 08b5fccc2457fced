/** Short answers: how many a second, how long each takes, and what it costs. */
import { chatBodyOf, chatPath, runShort } from "./load.ts";
import { record, type Table } from "./report.ts";
import { type Bench, interleaved, meterOf, perOne } from "./rounds.ts";

export const shortModels = { "at once": "short-0", "20 ms": "short-20" };

export async function measureShortAnswers(bench: Bench): Promise<Table> {
  const callers = bench.quick ? [16] : [1, 16, 64, 256];
  const seconds = bench.quick ? 1 : 2;
  const table: Table = {
    key: "short",
    title: "Short answers",
    notes: [
      "Whole answers from an upstream that answers at once or after 20 ms. Each caller sends its next request as soon as it is answered (wrk).",
      "CPU is of all of a system's processes, Redis included.",
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
  for (const [pace, model] of Object.entries(shortModels))
    for (const connections of callers)
      await interleaved(
        bench,
        `short answers ${pace}, ${connections} callers`,
        async (system) => {
          const meter = meterOf(system);
          const result = await runShort({ system, path: chatPath, bodies: [chatBodyOf(model)], connections, seconds });
          const { p50Ms, p99Ms, requests, errors } = result;
          const figures = requests === 0 ? {} : { p50Ms, p99Ms, ...perOne(meter(), requests) };
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
