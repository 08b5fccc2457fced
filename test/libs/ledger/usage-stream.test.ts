/**
 * Usage records on their way to the stream: a real Redis that is full, refuses, freezes and dies,
 * and real files.
 */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { pino } from "pino";
import { batchMs } from "#ledger/bounds.ts";
import { decodeUsageRecord } from "#ledger/usage-record.ts";
import { UsageStream, type UsageStreamBounds } from "#ledger/usage-stream.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import { usageRecord } from "../../control/records.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-usage-"));
const server = await startRedis({ isDurable: true });
const keyspace = keyspaceOf("test");
const redis = await connect("patient");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});
afterEach(() => redis.flushall());

async function connect(purpose: "request" | "patient"): Promise<Redis> {
  return (await connectRedis(server.url, purpose)).on("error", () => undefined);
}

let directories = 0;
let records = 0;
const nextDirectory = () => join(root, String(++directories));

/** A stream of a process of its own, which is closed at the end of its block. */
async function startStream(directory: string, bounds: Partial<UsageStreamBounds> = {}, wrap = (own: Redis) => own) {
  const own = await connect("request");
  const stream = new UsageStream({
    redis: wrap(own),
    keyspace,
    directory,
    log: pino({ level: "silent" }),
    bounds: { checkEveryMs: 10, ...bounds },
  });
  const written: string[] = [];
  return {
    stream,
    /** The ids of all records. */
    written,
    write(more: number) {
      for (let index = 0; index < more; index++) {
        const generationId = `gen_${++records}`;
        written.push(generationId);
        stream.write(usageRecord({ generationId }));
      }
    },
    async [Symbol.asyncDispose]() {
      await stream.close();
      own.disconnect();
    },
  };
}

type Entry = [id: string, fields: string[]];
const idsIn = (entries: readonly Entry[]): string[] =>
  entries.flatMap(([, [, text = ""]]) =>
    text.split("\n").map((line) => {
      const record = decodeUsageRecord(JSON.parse(line));
      assert.ok(record, "a line is not a record");
      return record.generationId;
    }),
  );
const idsInStream = async () => idsIn((await redis.xrange(keyspace.usage, "-", "+")) as Entry[]);
const bytesOfStream = async () => Number(await redis.memory("USAGE", keyspace.usage, "SAMPLES", 0));

/**
 * Reads and removes entries as the ledger does, until every id was read. Resolves to the most bytes
 * that the stream had.
 */
async function readAll(expected: readonly string[]): Promise<number> {
  const missing = new Set(expected);
  let most = 0;
  await until(
    "every record was read",
    async () => {
      most = Math.max(most, await bytesOfStream());
      const entries = (await redis.xrange(keyspace.usage, "-", "+", "COUNT", 3)) as Entry[];
      for (const id of idsIn(entries)) missing.delete(id);
      if (entries.length > 0) await redis.xdel(keyspace.usage, ...entries.map(([id]) => id));
      return missing.size === 0;
    },
    20_000,
  );
  return most;
}

const assertAll = async (written: readonly string[]) =>
  assert.deepEqual([...new Set(await idsInStream())].sort(), [...written].sort());

/** As if their process had died a while ago. */
async function abandon(directory: string): Promise<void> {
  for (const name of await readdir(directory)) await utimes(join(directory, name), 0, 0);
}

test("without a reader the stream stays bounded, and further records go to a file; with one, they follow in pieces", async () => {
  const bound = 512 * 1024;
  const directory = nextDirectory();
  await using usage = await startStream(directory, { streamBytesMax: bound, unmeasuredBytesMax: 64 * 1024 });
  await until("records go to a file", async () => {
    usage.write(200);
    await usage.stream.flush();
    return usage.stream.counts.spooledBytes > 0;
  });
  const length = await redis.xlen(keyspace.usage);
  assert.ok((await bytesOfStream()) < 2 * bound);
  for (let round = 0; round < 20; round++) {
    usage.write(300);
    await usage.stream.flush();
  }
  assert.equal(await redis.xlen(keyspace.usage), length);
  assert.ok(usage.stream.counts.spooledBytes > 3 * bound);
  // A file is sent 256 KiB at a time.
  const most = await readAll(usage.written);
  assert.ok(most < bound + 3 * 256 * 1024, `the stream had ${most} bytes`);
  await until("the files are gone", () => usage.stream.counts.spooledBytes === 0);
  assert.deepEqual(await readdir(directory), []);
  assert.equal(usage.stream.counts.lost, 0);
});

test("a record leaves at once if none has just left; those that follow it leave together", async (context) => {
  let sends = 0;
  await using usage = await startStream(nextDirectory(), {}, (own) => {
    const { xadd } = own;
    const counted = (...values: unknown[]) => {
      sends++;
      return Reflect.apply(xadd, own, values);
    };
    return Object.assign(own, { xadd: counted });
  });
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const sendsAfter = async (ms: number) => {
    context.mock.timers.tick(ms);
    await setImmediate();
    return sends;
  };
  usage.write(1);
  assert.equal(await sendsAfter(1), 1);
  await usage.stream.flush();
  usage.write(3);
  assert.equal(await sendsAfter(1), 1);
  assert.equal(await sendsAfter(batchMs), 2);
  await usage.stream.flush();
  await assertAll(usage.written);
});

test("small entries at its beginning do not hide the size of the stream", async () => {
  const bound = 1024 * 1024;
  await using usage = await startStream(nextDirectory(), { streamBytesMax: bound });
  for (let entry = 0; entry < 100; entry++) {
    usage.write(1);
    await usage.stream.flush();
  }
  await until("records go to a file", async () => {
    usage.write(500);
    await usage.stream.flush();
    return usage.stream.counts.spooledBytes > 0;
  });
  const bytes = await bytesOfStream();
  assert.ok(bytes < 2 * bound, `the stream has ${bytes} bytes`);
});

test("the next process sends the files of one that ended, and two processes share the work", async () => {
  const directory = nextDirectory();
  const written: string[] = [];
  for (let count = 0; count < 3; count++) {
    await using ended = await startStream(directory, { streamBytesMax: 0 });
    ended.write(100);
    await ended.stream.flush();
    await until("the stream counts as full", async () => {
      ended.write(100);
      await ended.stream.flush();
      return ended.stream.counts.spooledBytes > 0;
    });
    ended.write(2_000);
    written.push(...ended.written);
  }
  assert.equal((await readdir(directory)).length, 3);
  await abandon(directory);
  await using first = await startStream(directory);
  await using second = await startStream(directory);
  first.write(500);
  second.write(500);
  const all = [...written, ...first.written, ...second.written];
  await until("the files are gone", async () => (await readdir(directory)).length === 0);
  await Promise.all([first.stream.flush(), second.stream.flush()]);
  await assertAll(all);
});

test("a Redis out of memory or demoted to a replica: records wait in a file", async () => {
  const directory = nextDirectory();
  await using usage = await startStream(directory);
  const strikes = [
    { begin: () => redis.config("SET", "maxmemory", "1"), end: () => redis.config("SET", "maxmemory", "0") },
    { begin: () => redis.replicaof("127.0.0.1", 1), end: () => redis.replicaof("NO", "ONE") },
  ];
  for (const { begin, end } of strikes) {
    usage.write(50);
    await begin();
    usage.write(150);
    await usage.stream.flush();
    usage.write(350);
    await usage.stream.flush();
    assert.ok(usage.stream.counts.spooledBytes > 0);
    assert.ok((await readdir(directory)).length <= 2, "a Redis that refuses makes few files");
    await end();
    await until("the files are gone", () => usage.stream.counts.spooledBytes === 0);
  }
  await assertAll(usage.written);
  assert.equal(usage.stream.counts.lost, 0);
});

test("a frozen Redis and a killed one: nothing is lost", async () => {
  await using usage = await startStream(nextDirectory());
  for (const [strike, end] of [
    [server.pause, server.resume],
    [server.kill, server.restart],
  ] as const) {
    usage.write(30);
    await strike();
    usage.write(1_500);
    await until("records are in a file", () => usage.stream.counts.spooledBytes > 0);
    usage.write(1_500);
    await end();
    await until("everything is in the stream", async () => {
      await usage.stream.flush();
      return usage.stream.counts.pending === 0 && usage.stream.counts.spooledBytes === 0;
    });
  }
  await assertAll(usage.written);
  assert.equal(usage.stream.counts.lost, 0);
});

test("while neither Redis nor the disk takes records they wait in memory; beyond its bound they are lost and counted", async () => {
  const directory = nextDirectory();
  await writeFile(directory, "not a directory");
  await using usage = await startStream(directory, { pendingRecordsMax: 50 });
  await server.kill();
  usage.write(80);
  await usage.stream.flush();
  const { pending, lost, spooledBytes } = usage.stream.counts;
  assert.deepEqual({ pending, lost, spooledBytes }, { pending: 50, lost: 30, spooledBytes: 0 });
  await server.restart();
  await until("the others are in the stream", () => usage.stream.counts.pending === 0);
  await assertAll(usage.written.slice(0, 50));
  assert.equal(usage.stream.counts.lost, 30);
});

test("what is left in memory when a process closes is counted as lost", async () => {
  const directory = nextDirectory();
  await writeFile(directory, "not a directory");
  const usage = await startStream(directory, { streamBytesMax: -1 });
  await until("the stream counts as full", async () => {
    usage.write(1);
    await usage.stream.flush();
    return usage.stream.counts.pending > 0;
  });
  await usage[Symbol.asyncDispose]();
  const { pending, lost, written } = usage.stream.counts;
  assert.equal(pending, 0);
  assert.equal(lost + written, usage.written.length);
});

test("records that arrive in any moment of a flush are stored by it, by the next, or by the close", async () => {
  const written: string[] = [];
  for (let turns = 0; turns < 30; turns++) {
    const wrote = Promise.withResolvers<void>();
    let isLate = false;
    /** Writes another record some turns of the microtask queue after Redis answered. */
    const late = (own: Redis) =>
      new Proxy(own, {
        get(target, name) {
          if (name !== "xadd") return Reflect.get(target, name);
          return async (...args: Parameters<Redis["xadd"]>) => {
            const id = await target.xadd(...args);
            if (!isLate) void lateWrite();
            return id;
          };
        },
      });
    const lateWrite = async () => {
      isLate = true;
      for (let turn = 0; turn < turns; turn++) await undefined;
      usage.write(1);
      wrote.resolve();
    };
    const usage = await startStream(nextDirectory(), {}, late);
    usage.write(1);
    await Promise.all([usage.stream.flush(), wrote.promise]);
    await usage[Symbol.asyncDispose]();
    written.push(...usage.written);
  }
  await assertAll(written);
});

test("two processes in one directory, with a Redis that refuses now and then: nothing is lost", async () => {
  const directory = nextDirectory();
  await using first = await startStream(directory);
  await using second = await startStream(directory);
  for (let round = 0; round < 12; round++) {
    await redis.config("SET", "maxmemory", round % 2 === 0 ? "1" : "0");
    for (const usage of [first, second]) usage.write(137);
    await Promise.all([first.stream.flush(), second.stream.flush()]);
    await redis.ping();
  }
  await redis.config("SET", "maxmemory", "0");
  await until("the files are gone", async () => (await readdir(directory)).length === 0);
  await assertAll([...first.written, ...second.written]);
  assert.equal(first.stream.counts.lost + second.stream.counts.lost, 0);
});

test("what a server took in its last seconds is sent again when another takes its place, or it restarts without it", async () => {
  const lossy = await startRedis();
  const own = (await connectRedis(lossy.url, "request")).on("error", () => undefined);
  const stream = new UsageStream({
    redis: own,
    keyspace,
    directory: nextDirectory(),
    log: pino({ level: "silent" }),
    bounds: { checkEveryMs: 10 },
  });
  const idsThere = async () => idsIn((await own.xrange(keyspace.usage, "-", "+").catch(() => [])) as Entry[]);
  stream.write(usageRecord({ generationId: "gen_before" }));
  await stream.flush();
  assert.deepEqual(await idsThere(), ["gen_before"]);
  const infoCalls = async () => Number(/cmdstat_info:calls=(\d+)/.exec(await own.info("commandstats"))?.[1]);
  const before = await infoCalls();
  await until("it knows the server", async () => (await infoCalls()) > before + 4);
  await lossy.restartEmpty();
  stream.write(usageRecord({ generationId: "gen_after" }));
  await until("both are there", async () => new Set(await idsThere()).size === 2);
  await stream.close();
  own.disconnect();
  await lossy[Symbol.asyncDispose]();
});
