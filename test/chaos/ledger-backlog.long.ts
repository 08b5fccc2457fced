/**
 * An hour without control at 1,000 records a second, in short: the records are written as fast as
 * possible, then control starts and catches up. By default a third of the load with a third of the
 * stream; `LEDGER_RECORDS=3600000` plays the whole hour with the bound of `libs/ledger/bounds.ts`.
 * `LEDGER_EMBEDDED=1` uses the embedded database. With less than 900,000 records the stream would
 * be smaller than what control keeps in it after it has read it.
 */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pino } from "pino";
import { streamBytesMax as fullBytesMax } from "#ledger/bounds.ts";
import { UsageStream } from "#ledger/usage-stream.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { usageRecord } from "../control/records.ts";
import { startControlProcess } from "../support/control.ts";
import { startGateway } from "../support/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { until } from "../support/time.ts";

const count = Number(process.env.LEDGER_RECORDS ?? 1_200_000);
const streamBytesMax = Math.round(Math.min(1, count / 3_600_000) * fullBytesMax);
const mib = (bytes: number) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
const seconds = (since: number) => (performance.now() - since) / 1_000;

const directory = await mkdtemp(join(tmpdir(), "sluice-backlog-"));
const postgres = await startPostgres();
after(async () => {
  await postgres[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

test("control is away for an hour at 1,000 records a second: memory is bounded, and it catches up", async (context) => {
  await using gateway = await startGateway({ ingresses: 0, workers: [] });
  const redis = await connectRedis(gateway.redis.url, "patient");
  const own = await connectRedis(gateway.redis.url, "request");
  const usageDirectory = join(directory, "usage");
  const stream = new UsageStream({
    redis: own,
    keyspace: keyspaceOf("sluice"),
    directory: usageDirectory,
    log: pino({ level: "warn" }),
    bounds: { streamBytesMax, checkEveryMs: 10 },
  });
  let mostMemory = 0;
  const measure = async () => {
    mostMemory = Math.max(mostMemory, Number(/^used_memory:(\d+)/m.exec(await redis.info("memory"))?.[1]));
  };
  const say = (line: string) => context.diagnostic(`${line}; most memory of Redis so far ${mib(mostMemory)}`);

  const startedAt = performance.now();
  const firstAt = Date.now() - 3_600_000;
  for (let index = 1; index <= count; index++) {
    const receivedAt = firstAt + Math.floor(((index - 1) / count) * 3_600_000);
    stream.write(
      usageRecord({
        generationId: `gen_backlog_${index}`,
        keyId: `key_${index % 500}`,
        cost: String(index),
        receivedAt,
      }),
    );
    if (index % 2_000 === 0) await stream.flush();
    if (index % 50_000 === 0) await measure();
  }
  await stream.flush();
  await measure();
  say(
    `${count} records written in ${seconds(startedAt).toFixed(1)} s; the stream is bounded to ${mib(streamBytesMax)}, files have ${mib(await bytesIn(usageDirectory))}`,
  );
  assert.ok(mostMemory < streamBytesMax * 1.25 + (16 << 20), "Redis' memory is bounded while control is away");

  const environment = {
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    DATABASE_DIRECTORY: join(directory, "database"),
    ...(process.env.LEDGER_EMBEDDED === undefined && { DATABASE_URL: await postgres.createDatabase() }),
  };
  const backAt = performance.now();
  await using control = await startControlProcess(environment);
  let printedAt = performance.now();
  let total = { requests: 0, cost: "0" };
  await until(
    "control has caught up",
    async () => {
      await measure();
      if (performance.now() - printedAt > 1_000) {
        total = (await control.get<{ total: typeof total }>("/usage")).total;
        printedAt = performance.now();
      }
      return total.requests >= count;
    },
    1_800_000,
  );
  say(`control caught up in ${seconds(backAt).toFixed(1)} s: ${Math.round(count / seconds(backAt))} records a second`);
  assert.ok(mostMemory < streamBytesMax * 1.25 + (16 << 20), "Redis' memory is bounded while control catches up");
  const sum = (BigInt(count) * BigInt(count + 1)) / 2n;
  assert.deepEqual([total.requests, nanoOfText(total.cost)], [count, sum]);
  assert.equal(stream.counts.lost, 0);
  assert.equal(stream.counts.spooledBytes, 0);
  await stream.close();
  for (const connection of [redis, own]) connection.disconnect();
});

async function bytesIn(path: string): Promise<number> {
  const names = await readdir(path);
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(path, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Decimal text in nano-units, exactly. */
function nanoOfText(units: string): bigint {
  const [whole = "0", decimals = ""] = units.split(".");
  return BigInt(whole) * 1_000_000_000n + BigInt(decimals.padEnd(9, "0"));
}
