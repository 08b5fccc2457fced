/** The ledger's reader while the database does not take records. */

import assert from "node:assert/strict";
import { type EventEmitter, once } from "node:events";
import { after, test } from "node:test";
import { pino } from "pino";
import { encodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import { readBlockMs } from "../../apps/control/bounds.ts";
import { LedgerReader } from "../../apps/control/ledger/reader.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";
import { usageRecord } from "./records.ts";

const server = await startRedis();
after(() => server[Symbol.asyncDispose]());

test("an outage of the database has one line at its begin and one at its end", async (t) => {
  const keyspace = keyspaceOf("outage");
  const [reads, commands] = [await connectRedis(server.url, "patient"), await connectRedis(server.url, "request")];
  t.after(() => {
    reads.disconnect();
    commands.disconnect();
  });
  const lines: { level: number; err?: unknown; failures?: number }[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  let attempts = 0;
  const insert = async () => {
    if (++attempts <= 3) throw new Error("the database is away");
    return 1;
  };
  await commands.xadd(keyspace.usage, "*", "r", encodeUsageRecord(usageRecord()));
  const reader = new LedgerReader({ clock: systemClock, redis: reads, commands, keyspace, insert, log });
  reader.start();
  t.after(() => reader.close());
  await until("the end of the outage is logged", () => lines.at(-1)?.level === 30);
  assert.deepEqual(
    lines.map(({ level, err, failures }) => [level, err !== undefined, failures]),
    [
      [40, true, undefined],
      [30, false, 3],
    ],
  );
});

test("a reader that waits closes at once, and stores what it was given just then", async (t) => {
  const keyspace = keyspaceOf("closing");
  const [reads, commands] = [await connectRedis(server.url, "patient"), await connectRedis(server.url, "request")];
  t.after(() => commands.disconnect());
  let isLost = false;
  /** Waits for ever, and loses what it is given. */
  const redis = new Proxy(reads, {
    get(target, name: keyof Redis) {
      const command = (target[name] as (...args: unknown[]) => unknown).bind(target);
      if (name !== "xreadgroup") return command;
      return async (...args: unknown[]) => {
        await command(...args.map((arg, at) => (args[at - 1] === "BLOCK" ? 0 : arg)));
        isLost = true;
        await once(reads as unknown as EventEmitter, "end");
        throw new Error("Connection is closed.");
      };
    },
  });
  const stored: UsageRecord[] = [];
  const insert = async (records: readonly UsageRecord[]) => stored.push(...records);
  const log = pino({ level: "silent" });
  const reader = new LedgerReader({ clock: systemClock, redis, commands, keyspace, insert, log });
  reader.start();
  await commands.xadd(keyspace.usage, "*", "r", encodeUsageRecord(usageRecord()));
  await until("the entry is delivered", () => isLost);
  const startedAt = performance.now();
  await reader.close();
  assert.ok(performance.now() - startedAt < readBlockMs);
  assert.equal(stored.length, 1);
  assert.equal((await commands.xpending(keyspace.usage, "ledger"))[0], 0);
});

test("a reader stops while Redis is away", async () => {
  const mortal = await startRedis();
  const [reads, commands] = [await connectRedis(mortal.url, "patient"), await connectRedis(mortal.url, "request")];
  for (const redis of [reads, commands]) redis.on("error", () => {});
  const keyspace = keyspaceOf("outage");
  const insert = async () => 0;
  const reader = new LedgerReader({
    clock: systemClock,
    redis: reads,
    commands,
    keyspace,
    insert,
    log: pino({ level: "silent" }),
  });
  reader.start();
  await until("it reads", async () => (await commands.xpending(keyspace.usage, "ledger").catch(() => null)) !== null);
  await mortal.kill();
  const startedAt = performance.now();
  await reader.close();
  assert.ok(performance.now() - startedAt < 5_000);
  for (const redis of [reads, commands]) redis.disconnect();
  await mortal[Symbol.asyncDispose]();
});
