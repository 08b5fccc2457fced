import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { measureNames, usageColumns } from "../../apps/control/ledger/columns.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { UsagePartitions } from "../../apps/control/ledger/partitions.ts";
import { onBoth } from "./databases.ts";
import { usageRecord } from "./records.ts";

const day = 86_400_000;

/** Totals of a key, and the sum of its records. */
async function sumsOf(database: Database, keyId: string): Promise<{ totals: unknown; records: unknown }> {
  const { rows: totals } = await sql<{ requests: bigint; cost: bigint; output: bigint }>`
    select coalesce(sum(requests), 0)::bigint as requests, coalesce(sum(cost), 0)::bigint as cost,
      coalesce(sum(output_tokens), 0)::bigint as output
    from usage_totals where key_id = ${keyId}`.execute(database);
  const { rows: days } = await sql`
    select coalesce(sum(requests), 0)::bigint as requests, coalesce(sum(cost), 0)::bigint as cost,
      coalesce(sum(output_tokens), 0)::bigint as output
    from usage_days where key_id = ${keyId}`.execute(database);
  assert.deepEqual(days, totals, "the totals by day are those by half hour");
  const { rows: records } = await sql`
    select count(*)::bigint as requests, coalesce(sum(cost), 0)::bigint as cost,
      coalesce(sum(output_tokens), 0)::bigint as output
    from usage where key_id = ${keyId}`.execute(database);
  return { totals: totals[0], records: records[0] };
}

onBoth("the tables have the columns that the ledger uses", async (database) => {
  const columnsOf = async (table: string) => {
    const { rows } = await sql<{ name: string }>`
      select column_name as name from information_schema.columns where table_name = ${table}`.execute(database);
    return rows.map(({ name }) => name).sort();
  };
  assert.deepEqual(
    await columnsOf("usage"),
    Object.values(usageColumns)
      .map(([name]) => name)
      .sort(),
  );
  const totals = await columnsOf("usage_totals");
  assert.deepEqual(
    measureNames.filter((name) => !totals.includes(name)),
    [],
  );
});

onBoth("a record counts once, however often it is delivered", async (database) => {
  const keyId = "key_once";
  const record = usageRecord({ keyId });
  assert.equal(await insertUsage(database, [record, record]), 1);
  assert.equal(await insertUsage(database, [record]), 0);
  const { totals, records } = await sumsOf(database, keyId);
  assert.deepEqual(totals, { requests: 1n, cost: 200n, output: 50n });
  assert.deepEqual(records, totals);
});

onBoth("a later attempt replaces an earlier one, and the ingress's record that of a worker", async (database) => {
  const keyId = "key_later";
  const generationId = "gen_later";
  const receivedAt = Date.now();
  const of = (more: Partial<UsageRecord>) => usageRecord({ keyId, generationId, receivedAt, ...more });
  await insertUsage(database, [of({ attempt: 1, cost: "10", isOwner: false })]);
  await insertUsage(database, [of({ attempt: 2, cost: "20", upstream: "other", isOwner: false })]);
  await insertUsage(database, [of({ attempt: 1, cost: "99", isOwner: false })]);
  assert.deepEqual((await sumsOf(database, keyId)).totals, { requests: 1n, cost: 20n, output: 50n });
  await insertUsage(database, [of({ attempt: 1, cost: "30", upstream: "third" })]);
  await insertUsage(database, [of({ attempt: 3, cost: "99", isOwner: false })]);
  const { totals, records } = await sumsOf(database, keyId);
  assert.deepEqual(totals, { requests: 1n, cost: 30n, output: 50n });
  assert.deepEqual(records, totals);
});

onBoth("a worker's later record of an attempt replaces that of when its ingress seemed gone", async (database) => {
  const keyId = "key_witnessed";
  const generationId = "gen_witnessed";
  const of = (more: Partial<UsageRecord>) => usageRecord({ keyId, generationId, receivedAt: 1_000, ...more });
  const early = of({ isOwner: false, durationMs: 900, cost: "0" });
  const late = of({ isOwner: false, durationMs: 5_000, cost: "70" });
  await insertUsage(database, [early]);
  await insertUsage(database, [late, early]);
  await insertUsage(database, [early]);
  assert.deepEqual((await sumsOf(database, keyId)).totals, { requests: 1n, cost: 70n, output: 50n });
  await insertUsage(database, [of({ durationMs: 100, cost: "30" })]);
  await insertUsage(database, [late]);
  const { totals, records } = await sumsOf(database, keyId);
  assert.deepEqual(totals, { requests: 1n, cost: 30n, output: 50n });
  assert.deepEqual(records, totals);
});

onBoth("whatever is delivered, repeated and reordered: totals equal the sum of the records", async (database) => {
  let run = 0;
  const delivery = fc.record({
    generation: fc.integer({ min: 1, max: 8 }),
    attempt: fc.integer({ min: 1, max: 3 }),
    isOwner: fc.boolean(),
    durationMs: fc.integer({ min: 1, max: 3 }),
    cost: fc.bigInt({ min: 0n, max: 10n ** 12n }),
    upstream: fc.constantFrom("a", "b"),
    model: fc.constantFrom("m", "n"),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(delivery, { minLength: 1, maxLength: 12 }), { maxLength: 6 }),
      async (batches) => {
        const keyId = `key_p${process.pid}_${++run}`;
        const receivedAt = Date.now();
        for (const batch of batches) {
          const records = batch.map(({ generation, cost, model, ...more }) =>
            usageRecord({
              ...more,
              keyId,
              receivedAt,
              generationId: `${keyId}_${generation}`,
              cost: String(cost),
              modelAnswered: model,
            }),
          );
          await insertUsage(database, records);
          await insertUsage(database, records.toReversed());
        }
        const { totals, records } = await sumsOf(database, keyId);
        assert.deepEqual(totals, records);
        const { rows } = await sql`select from usage_totals where key_id = ${keyId} and requests < 0`.execute(database);
        assert.equal(rows.length, 0);
      },
    ),
    { numRuns: 25 },
  );
});

onBoth("partitions are created by day, dropped by retention, and a clock far off harms nothing", async (database) => {
  const partitions = new UsagePartitions(database, () => 30);
  const now = Date.parse("2031-05-20T10:00:00Z");
  const at = (days: number) => usageRecord({ keyId: "key_days", receivedAt: now + days * day });
  const records = [at(0), at(-1), at(-29), at(400), at(-4000)];
  await partitions.create(
    records.map(({ receivedAt }) => receivedAt),
    now,
  );
  await insertUsage(database, records);
  const { rows } = await sql<{ name: string }>`
    select distinct tableoid::regclass::text as name from usage where key_id = 'key_days' order by 1`.execute(database);
  assert.deepEqual(
    rows.map(({ name }) => name),
    ["usage_2031_04_21", "usage_2031_05_19", "usage_2031_05_20", "usage_other"],
  );
  assert.deepEqual(await partitions.drop(now + 2 * day), ["usage_2031_04_21"]);
  assert.deepEqual((await sumsOf(database, "key_days")).totals, { requests: 5n, cost: 1000n, output: 250n });
});

onBoth("records of a clock that was some days ahead do not hinder the records of those days", async (database) => {
  const partitions = new UsagePartitions(database, () => 30);
  const now = Date.parse("2033-05-20T10:00:00Z");
  const keyId = "key_ahead";
  await partitions.create([now + 5 * day], now);
  await insertUsage(database, [usageRecord({ keyId, receivedAt: now + 5 * day })]);
  await partitions.create([now + 5 * day], now + 5 * day);
  await insertUsage(database, [usageRecord({ keyId, receivedAt: now + 5 * day + 1 })]);
  assert.deepEqual((await sumsOf(database, keyId)).totals, { requests: 2n, cost: 400n, output: 100n });
});

onBoth("texts that Postgres cannot store lose only the characters in question", async (database) => {
  const keyId = "key_texts";
  const user = "a\u0000b \ud83d 😀 \\u0000";
  await insertUsage(database, [usageRecord({ keyId, user, tags: ["\udead", "t"] })]);
  const { rows } = await sql`select user_name, tags from usage where key_id = ${keyId}`.execute(database);
  assert.deepEqual(rows, [{ user_name: "a\ufffdb \ufffd 😀 \\u0000", tags: ["\ufffd", "t"] }]);
});
