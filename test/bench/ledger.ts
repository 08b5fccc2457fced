/**
 * The ledger under a load of short answers: how far it is behind, and whether it has every request
 * in the end.
 */
import { setTimeout as delay } from "node:timers/promises";
import { connectRedis } from "#service/redis.ts";
import { type FreshCase, withFresh } from "./fresh.ts";
import { ledgerLagMs } from "./ledger-state.ts";
import { chatBodyOf, chatPath, runShort } from "./load.ts";
import { cpuOf, record, type Table } from "./report.ts";
import { type Bench, interleaved, meterOf, perOne } from "./rounds.ts";
import type { Sluice } from "./sluice.ts";

const lookMs = 100;

/** The first is what `npm start` runs. */
export const ledgerCases = {
  embedded: "embedded database",
  postgres: "PostgreSQL",
  two: "PostgreSQL, two control processes",
};
const cases: FreshCase[] = [
  { name: ledgerCases.embedded, options: {} },
  { name: ledgerCases.postgres, options: { database: "postgres" } },
  { name: ledgerCases.two, options: { database: "postgres", controls: 2 } },
];

/** Looks at the ledger's lag until the call, which resolves to the longest, in seconds. */
async function watchLag(redisUrl: string): Promise<() => Promise<number>> {
  const redis = await connectRedis(redisUrl, "patient");
  const stopping = new AbortController();
  let longestMs = 0;
  const looking = (async () => {
    while (!stopping.signal.aborted) {
      longestMs = Math.max(longestMs, await ledgerLagMs(redis));
      await delay(lookMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  })();
  return async () => {
    stopping.abort();
    await looking;
    redis.disconnect();
    return longestMs / 1_000;
  };
}

export async function measureLedger(bench: Bench): Promise<Table> {
  const connections = bench.quick ? 16 : 64;
  const seconds = bench.quick ? 1 : 8;
  const table: Table = {
    key: "ledger",
    title: "Ledger",
    notes: [
      `Short answers for ${connections} callers during ${seconds} s. Longest lag: the age of the oldest usage record in Redis that the ledger does not have, looked at every ${lookMs} ms. After the load: until the ledger has every record.`,
      "CPU is of control and its database. Records: how many the ledger stored for each answer; the callers that leave at the end of the load have one as well.",
    ],
    labels: ["ledger"],
    columns: [
      { key: "requestsPerSecond", head: "requests/s", digits: 0 },
      { key: "lag", head: "longest lag s", digits: 2 },
      { key: "after", head: "after the load s", digits: 2 },
      { key: "ledgerCpu", head: "CPU µs/request", digits: 0 },
      { key: "records", head: "records/request", digits: 4 },
    ],
    rows: [],
  };
  const measure = async (system: Sluice) => {
    await system.caughtUp?.();
    const recordsBefore = await system.ledgerRecords();
    const meter = meterOf(system);
    const longestLag = await watchLag(system.redisUrl);
    const load = { system, path: chatPath, bodies: [chatBodyOf(bench.shortModel)], connections, seconds };
    const { requests, errors, ...result } = await runShort(load);
    const afterMs = (await system.caughtUp?.()) ?? Number.NaN;
    const cpu = perOne(meter(), requests);
    const lag = await longestLag();
    const records = (await system.ledgerRecords()) - recordsBefore;
    const figures = {
      requestsPerSecond: requests / result.seconds,
      lag,
      after: afterMs / 1_000,
      ledgerCpu: (cpu[`${cpuOf}control`] ?? 0) + (cpu[`${cpuOf}postgres`] ?? 0),
      records: records / requests,
    };
    const missing = records < requests ? [`${requests - records} answers are not in the ledger`] : [];
    record(table, [system.name], figures, [...errors, ...missing]);
  };
  await withFresh(bench, bench.quick ? cases.slice(0, 1) : cases, (systems) =>
    interleaved(
      { ...bench, systems },
      "ledger",
      (system) => measure(system as Sluice),
      (system, fault) => record(table, [system], {}, [fault]),
    ),
  );
  return table;
}
