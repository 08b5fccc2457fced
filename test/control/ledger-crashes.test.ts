/**
 * The whole way from the stream to the totals, one step at a time: readers are given one command of
 * Redis or one insertion after the other, in a random order between them, and crash before or after
 * any. Whatever is delivered, repeated, reordered or not valid: records, totals by half hour,
 * totals by day and an independent calculation agree to the last nano-unit.
 */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import fc from "fast-check";
import { sql } from "kysely";
import { pino } from "pino";
import { encodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import { type Clock, systemClock } from "#service/clock.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { UsagePartitions } from "../../apps/control/ledger/partitions.ts";
import { LedgerReader } from "../../apps/control/ledger/reader.ts";
import { moneyOf, pricedUsages } from "../libs/ledger/priced-records.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";
import { onBoth } from "./databases.ts";
import { usageRecord } from "./records.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "patient");
/** Readers whose crash is over; they end by themselves. */
const ending: Promise<void>[] = [];
after(async () => {
  await Promise.all(ending);
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

type Insert = (records: readonly UsageRecord[]) => Promise<number>;

/** As the ledger does it. */
function insertionInto(database: Database): Insert {
  const partitions = new UsagePartitions(database, () => 90);
  return async (records) => {
    const times = records.map(({ receivedAt }) => receivedAt);
    await partitions.create(times, Date.now());
    return insertUsage(database, records);
  };
}

let moments = 0;
/** A second passes between any two looks, so no reader waits for the time of its next read. */
const clock: Clock = { now: () => ++moments * 1_000, epoch: systemClock.epoch };

type Fate = "go" | "crash before" | "crash after";

/** A reader that makes each step only when it is told to. */
class SteppedReader {
  readonly #reader: LedgerReader;
  #step: { name: string; make(fate: Fate): Promise<void> } | undefined;
  #waiting = Promise.withResolvers<void>();
  hasCrashed = false;

  constructor(keyspace: Keyspace, insert: Insert) {
    this.#reader = new LedgerReader({
      clock,
      redis: this.#stepped(),
      commands: this.#stepped(),
      keyspace,
      insert: (records) => this.#granted("insert", () => insert(records)),
      log: pino({ level: "silent" }),
    });
    this.#reader.start();
  }

  /** Makes steps until the next one has this name. */
  async until(name: string): Promise<void> {
    for (await this.#waiting.promise; this.#step?.name !== name; await this.#waiting.promise) await this.next();
  }

  /** Makes its next step. A crash is for ever: neither that step nor a later one answers. */
  async next(fate: Fate = "go"): Promise<void> {
    await this.#waiting.promise;
    this.#waiting = Promise.withResolvers();
    const step = this.#step;
    if (fate !== "go") {
      this.hasCrashed = true;
      ending.push(this.#reader.close());
    }
    await step?.make(fate);
  }

  /** Ends in an orderly way. */
  async close(): Promise<void> {
    const closed = this.#reader.close().then(() => true);
    while (!(await Promise.race([closed, this.#waiting.promise.then(() => false)]))) await this.next();
  }

  #granted<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    if (this.hasCrashed) return Promise.reject(new Error("crashed"));
    const result = Promise.withResolvers<Result>();
    const make = async (fate: Fate) => {
      if (fate === "crash before") return result.reject(new Error("crashed"));
      try {
        const value = await work();
        if (fate === "go") result.resolve(value);
        else result.reject(new Error("crashed"));
      } catch (error) {
        result.reject(error);
      }
    };
    this.#step = { name, make };
    this.#waiting.resolve();
    return result.promise;
  }

  /**
   * The commands of Redis. A read returns at once and has few entries; what a crashed reader had is
   * free at once.
   */
  #stepped(): Redis {
    return new Proxy(redis, {
      get: (target, name: keyof Redis) => {
        if (name === "on" || name === "off" || name === "disconnect") return () => undefined;
        return (...args: unknown[]) => {
          if (name === "xreadgroup") args = unblocked(args, 2);
          if (name === "xautoclaim") args[3] = 0;
          return this.#granted(String(name), () =>
            (target[name] as (...args: unknown[]) => Promise<unknown>).apply(target, args),
          );
        };
      },
    });
  }
}

/** The arguments of a read that returns at once. */
function unblocked(args: readonly unknown[], count: number): unknown[] {
  const changed = args.map((arg, at) => (args[at - 1] === "COUNT" ? count : arg));
  changed.splice(changed.indexOf("BLOCK"), 2);
  return changed;
}

const minute = 60_000;
const start = Math.floor((Date.now() - 40 * 60 * minute) / minute) * minute;

/**
 * The records of one generation: those of workers for their attempts, and of one ingress or of two.
 */
const generations = fc.record({
  minutesLater: fc.nat(40 * 60),
  keyed: fc.constantFrom("one", "two"),
  records: fc.uniqueArray(
    fc.record({
      isOwner: fc.boolean(),
      attempt: fc.integer({ min: 0, max: 3 }),
      usage: pricedUsages,
      upstream: fc.constantFrom("a", "b", null),
      modelAnswered: fc.constantFrom("m", "n", null),
      outcome: fc.constantFrom("complete" as const, "left" as const, "failed" as const, "refused" as const),
      user: fc.constantFrom(null, "someone", "\u0000", "half \ud83d", "a \\u0000 text"),
      upstreamCost: fc.option(fc.nat(1_000_000).map(String)),
      deliveries: fc.integer({ min: 1, max: 3 }),
    }),
    { minLength: 1, maxLength: 4, selector: ({ isOwner, attempt }) => `${isOwner} ${attempt}` },
  ),
});
const valid = usageRecord();
const invalidLines = [
  "",
  "{",
  "[]",
  JSON.stringify([2, "another version"]),
  encodeUsageRecord({ ...valid, cost: "-1" }),
  // Valid as records, but no values of the database.
  encodeUsageRecord({ ...valid, cost: "9999999999999999999" }),
  encodeUsageRecord({ ...valid, calls: 1_000_000_000_000 }),
  encodeUsageRecord({ ...valid, receivedAt: 8_640_000_000_000_000 }),
];

const worlds = fc.record({
  generations: fc.array(generations, { minLength: 1, maxLength: 6 }),
  invalid: fc.array(fc.constantFrom(...invalidLines), { maxLength: 3 }),
  /** Where each delivery goes in the stream. */
  order: fc.array(fc.nat(1_000_000), { minLength: 80, maxLength: 80 }),
  sizes: fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 80, maxLength: 80 }),
  steps: fc.array(
    fc.record({
      who: fc.constantFrom("first", "second", "writer"),
      fate: fc.oneof(
        { weight: 9, arbitrary: fc.constant("go" as const) },
        { weight: 1, arbitrary: fc.constantFrom("crash before" as const, "crash after" as const) },
      ),
    }),
    { minLength: 20, maxLength: 70 },
  ),
});
type World = typeof worlds extends fc.Arbitrary<infer Value> ? Value : never;

function recordsOf(world: World, name: string): { record: UsageRecord; deliveries: number }[][] {
  return world.generations.map(({ minutesLater, keyed, records }, index) =>
    records.map(({ usage, deliveries, ...more }) => ({
      deliveries,
      record: usageRecord({
        ...more,
        ...moneyOf(usage),
        generationId: `gen_${name}_${index}`,
        keyId: `key_${name}_${keyed}`,
        account: name,
        receivedAt: start + minutesLater * minute,
      }),
    })),
  );
}

/** The entries of the stream, in an order in which later ones repeat and overtake. */
function entriesOf(world: World, records: { record: UsageRecord; deliveries: number }[][]): string[] {
  const lines = records
    .flat()
    .flatMap(({ record, deliveries }) => Array<string>(deliveries).fill(encodeUsageRecord(record)))
    .concat(world.invalid)
    .map((line, index) => ({ line, at: world.order[index] as number }))
    .sort((one, other) => one.at - other.at)
    .map(({ line }) => line);
  const entries: string[] = [];
  for (let index = 0; lines.length > 0; index++) entries.push(lines.splice(0, world.sizes[index]).join("\n"));
  return entries;
}

interface Sums {
  requests: number;
  failed: number;
  input: bigint;
  output: bigint;
  cost: bigint;
  upstreamCost: bigint;
}

/** By key and by the beginning of a period, from the record of each generation that counts. */
function expectedSums(world: World, records: { record: UsageRecord }[][], periodMs: number): Record<string, Sums> {
  const sums: Record<string, Sums> = {};
  records.forEach((ofGeneration, index) => {
    const [{ record: counted } = { record: valid }] = ofGeneration.toSorted(
      ({ record: one }, { record: other }) =>
        Number(other.isOwner) - Number(one.isOwner) || other.attempt - one.attempt,
    );
    const made = world.generations[index]?.records.find(
      ({ isOwner, attempt }) => isOwner === counted.isOwner && attempt === counted.attempt,
    );
    assert.ok(made);
    const { usage } = made;
    const at = `${counted.keyId} ${new Date(counted.receivedAt - (counted.receivedAt % periodMs)).toISOString()}`;
    sums[at] ??= { requests: 0, failed: 0, input: 0n, output: 0n, cost: 0n, upstreamCost: 0n };
    const sum = sums[at];
    sum.requests++;
    sum.failed += Number(counted.outcome === "failed");
    sum.input += BigInt(usage.used.inputTokens);
    sum.output += BigInt(usage.used.outputTokens);
    sum.cost += usage.cost;
    sum.upstreamCost += BigInt(counted.upstreamCost ?? 0);
  });
  return sums;
}

async function sumsIn(database: Database, name: string, table: string, time: string, requests: string, failed: string) {
  const { rows } = await sql<{ key_id: string; at: Date } & Sums>`
    select key_id, ${sql.raw(time)} as at, ${sql.raw(requests)}::int as requests, ${sql.raw(failed)}::int as failed,
      sum(input_tokens)::bigint as input, sum(output_tokens)::bigint as output, sum(cost)::bigint as cost,
      coalesce(sum(upstream_cost), 0)::bigint as "upstreamCost"
    from ${sql.table(table)} where account = ${name} group by 1, 2`.execute(database);
  return Object.fromEntries(
    rows
      .filter(({ requests }) => requests !== 0)
      .map(({ key_id, at, ...sums }) => [`${key_id} ${at.toISOString()}`, sums]),
  );
}

async function assertSums(database: Database, world: World, name: string, records: { record: UsageRecord }[][]) {
  const bin = "date_bin('30 minutes', received_at, timestamptz '2000-01-01 00:00:00+00')";
  const halfHours = expectedSums(world, records, 30 * minute);
  const count = ["count(*)", "count(*) filter (where outcome = 'failed')"] as const;
  const sums = ["sum(requests)", "sum(failed)"] as const;
  assert.deepEqual(await sumsIn(database, name, "usage", bin, ...count), halfHours, "records");
  assert.deepEqual(
    await sumsIn(database, name, "usage_totals", "half_hour", ...sums),
    halfHours,
    "totals by half hour",
  );
  assert.deepEqual(
    await sumsIn(database, name, "usage_days", "day", ...sums),
    expectedSums(world, records, 24 * 60 * minute),
    "totals by day",
  );
  const { rows } = await sql`
    select from usage_totals where account = ${name} and (requests < 0 or (requests = 0 and (cost <> 0 or input_tokens <> 0)))`.execute(
    database,
  );
  assert.equal(rows.length, 0, "a total without requests is zero");
}

let runs = 0;

async function play(database: Database, world: World): Promise<void> {
  const name = `p${process.pid}_${++runs}`;
  const keyspace = keyspaceOf(name);
  const records = recordsOf(world, name);
  const entries = entriesOf(world, records);
  let written = 0;
  // Entries from long ago, so that they may be removed once they are confirmed.
  const write = async () => {
    const text = entries[written];
    if (text !== undefined) await redis.xadd(keyspace.usage, `${++written}-0`, "r", text);
  };
  await write();
  const insert = insertionInto(database);
  const readers = { first: new SteppedReader(keyspace, insert), second: new SteppedReader(keyspace, insert) };
  for (const { who, fate } of world.steps) {
    if (who === "writer") await write();
    else {
      await readers[who].next(fate);
      if (readers[who].hasCrashed) readers[who] = new SteppedReader(keyspace, insert);
    }
  }
  while (written < entries.length) await write();
  await readers.first.next("crash before");
  await readers.second.next("crash after");
  await finish(insert, keyspace, written);
  await assertSums(database, world, name, records);
  assert.ok((await redis.xlen(keyspace.usageInvalid)) >= world.invalid.length);
  await redis.del(keyspace.usage, keyspace.usageInvalid);
}

/** A last reader, which nothing disturbs. */
async function finish(insert: Insert, keyspace: Keyspace, written: number): Promise<void> {
  const last = new SteppedReader(keyspace, insert);
  while (!(await isDone(keyspace.usage, `${written}-0`))) await last.next();
  await last.close();
}

/** Everything was read and confirmed. */
async function isDone(stream: string, lastId: string): Promise<boolean> {
  const [own] = (await redis.xinfo("GROUPS", stream).catch(() => [])) as unknown[][];
  if (own === undefined) return false;
  const field = (name: string) => own[own.indexOf(name) + 1];
  return field("pending") === 0 && field("last-delivered-id") === lastId;
}

let tests = 0;

onBoth(
  "whatever is delivered and whoever crashes: the sums agree to the last unit, and nothing is pending",
  async (database) => {
    // The embedded database is slower.
    const numRuns = ++tests === 1 ? 40 : 8;
    await fc.assert(
      fc.asyncProperty(worlds, (world) => play(database, world)),
      { numRuns, endOnFailure: true },
    );
  },
);

test("what a reader was given between any two steps of another is not lost when it crashes", async () => {
  for (let steps = 0; steps < 24; steps++) {
    const keyspace = keyspaceOf(`between${steps}`);
    const stored = new Set<string>();
    const insert: Insert = async (records) => {
      for (const { generationId } of records) stored.add(generationId);
      return records.length;
    };
    for (let entry = 1; entry <= 6; entry++)
      await redis.xadd(keyspace.usage, `${entry}-0`, "r", encodeUsageRecord(usageRecord()));
    const [reader, victim] = [new SteppedReader(keyspace, insert), new SteppedReader(keyspace, insert)];
    await victim.until("xreadgroup");
    for (let step = 0; step < steps; step++) await reader.next();
    await victim.next();
    for (let step = 0; step < 12; step++) await reader.next();
    await victim.next("crash before");
    await reader.next("crash after");
    await finish(insert, keyspace, 6);
    assert.equal(stored.size, 6, `after ${steps} steps`);
  }
});

test("readers that are gone are forgotten", async () => {
  const keyspace = keyspaceOf("readers");
  /** An hour passes between any two looks. */
  const later = new Proxy(redis, {
    get: (target, name: keyof Redis) => {
      const command = (target[name] as (...args: unknown[]) => unknown).bind(target);
      if (name === "xreadgroup") return (...args: unknown[]) => command(...unblocked(args, 50));
      if (name === "disconnect") return () => undefined;
      if (name !== "xinfo") return command;
      return async (...args: [string, string]) =>
        ((await target.xinfo(...(args as ["GROUPS", string]))) as unknown[][]).map((fields) =>
          fields.map((field, at) => (fields[at - 1] === "idle" ? 4_000_000 : field)),
        );
    },
  });
  const options = {
    clock: systemClock,
    redis: later,
    commands: later,
    keyspace,
    insert: async () => 0,
    log: pino({ level: "silent" }),
  };
  for (let count = 0; count < 3; count++) {
    const reader = new LedgerReader(options);
    reader.start();
    await until("it has tidied", async () => (await consumers(keyspace.usage)) === 1 && reader.counts.readAt > 0);
    await reader.close();
  }
});

const consumers = async (stream: string): Promise<number> =>
  ((await redis.xinfo("CONSUMERS", stream, "ledger").catch(() => [])) as unknown[]).length;
