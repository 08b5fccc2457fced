/** An idle gateway: the commands that it sends Redis, and its CPU time. */
import { setTimeout as delay } from "node:timers/promises";
import { connectRedis, type Redis } from "#service/redis.ts";
import { type FreshCase, withFresh } from "./fresh.ts";
import { record, type Table } from "./report.ts";
import { type Bench, interleaved, meterOf, untilCalm } from "./rounds.ts";
import type { Sluice } from "./sluice.ts";

const servers = new Set(["redis", "postgres"]);
/** Commands of this measurement between its two looks: the first INFO. */
const ownCommands = 1;

/** How many commands Redis has run, those of scripts included. */
async function commandsOf(redis: Redis): Promise<number> {
  const calls = [...(await redis.info("commandstats")).matchAll(/^cmdstat_\S+:calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

export async function measureIdle(bench: Bench): Promise<Table> {
  const ms = bench.quick ? 2_000 : 5_000;
  const table: Table = {
    key: "idle",
    title: "Idle",
    notes: [
      `A gateway without requests during ${ms / 1_000} s: the commands that Redis runs, those of scripts included, in all and for each process of the gateway; and its CPU time.`,
    ],
    labels: ["processes"],
    columns: [
      { key: "commands", head: "commands/s", digits: 0 },
      { key: "commandsOfOne", head: "commands/s per process", digits: 1 },
      { key: "cpu", head: "CPU ms/s", digits: 1 },
    ],
    rows: [],
  };
  const measure = async (system: Sluice) => {
    await untilCalm(system);
    const redis = await connectRedis(system.redisUrl, "patient");
    try {
      const before = await commandsOf(redis);
      const meter = meterOf(system);
      await delay(ms);
      const cpu = Object.entries(meter()).map(([key, seconds]) => [key, (seconds * 1e6) / ms]);
      const commands = ((await commandsOf(redis)) - before - ownCommands) / (ms / 1_000);
      const processes = system.processes.filter(({ name }) => !servers.has(name)).length;
      record(table, [system.name], { commands, commandsOfOne: commands / processes, ...Object.fromEntries(cpu) });
    } finally {
      redis.disconnect();
    }
  };
  const cases = (bench.quick ? [1] : [1, 4, 10]).map(
    (workers): FreshCase => ({
      name: `1 ingress, ${workers} ${workers === 1 ? "worker" : "workers"}, 1 control`,
      options: { workers },
    }),
  );
  await withFresh(bench, cases, (systems) =>
    interleaved(
      { ...bench, systems },
      "idle",
      (system) => measure(system as Sluice),
      (system, fault) => record(table, [system], {}, [fault]),
    ),
  );
  return table;
}
