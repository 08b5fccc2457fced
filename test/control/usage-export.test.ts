/** Hourly exports of usage: their sums are those of the ledger, to the last digit. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after } from "node:test";
import { sql } from "kysely";
import { pino } from "pino";
import { costOf, type UnitPrices, unitPriceNames } from "#ledger/prices.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import { DirectoryStore } from "#objects/directory-store.ts";
import type { ObjectStore } from "#objects/object-store.ts";
import { systemClock } from "#service/clock.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { exportUsageHours } from "../../apps/control/ledger/usage-export.ts";
import { onBoth } from "./databases.ts";
import { usageRecord } from "./records.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-exports-"));
after(() => rm(root, { recursive: true, force: true }));

const hourMs = 3_600_000;
const now = Date.parse("2031-06-10T12:20:00Z");
const clock = { ...systemClock, epoch: () => now };

/** Whole numbers of the last decimal of all. */
const exact = (text: string, decimals = 30): bigint => {
  const [, sign = "", whole = "", fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? assert.fail(text);
  return BigInt(`${sign}${whole}${fraction.padEnd(decimals, "0")}`);
};
const rowsIn = (csv: string): Record<string, string>[] => {
  const [names = [], ...rows] = csv
    .trimEnd()
    .split("\r\n")
    .map((line) => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, field = ""]) => field));
  return rows.map((fields) => Object.fromEntries(names.map((name, index) => [name, fields[index] ?? ""])));
};

async function exporting(database: Database, name: string) {
  const directory = join(root, `${name}-${Math.random()}`);
  const options = {
    database,
    objects: new DirectoryStore(directory) as ObjectStore,
    formats: ["jsonl", "focus"] as ("jsonl" | "focus")[],
    usageDays: () => 400,
    currency: () => "USD",
    issuer: () => "Gateway",
    clock,
    log: pino({ level: "silent" }),
  };
  return {
    options,
    run: (more: Partial<typeof options> = {}) => exportUsageHours({ ...options, ...more }),
    read: (path: string) => readFile(join(directory, path), "utf8"),
    list: async () => (await readdir(directory, { recursive: true })).filter((path) => /\.\w+$/.test(path)).sort(),
  };
}

/** A store that breaks off the objects of which this is true. */
const failing = (isFull: (name: string) => boolean, store?: ObjectStore) =>
  ({
    async put(name, source) {
      if (!isFull(name)) return store?.put(name, source);
      for await (const _ of source) throw new Error("the store is full");
    },
  }) as Pick<ObjectStore, "put"> as ObjectStore;

/** The prices differ, and so do the numbers of units; some charges are no multiple of a price. */
const records = (start: number): UsageRecord[] =>
  Array.from({ length: 2_345 }, (_, index) => {
    const prices = unitPriceNames.map((name, place) =>
      name === "servicePpm" ? [1_000_000, 500_000, 333_333][index % 3] : (place * 1_234_567 + index) % 7_000_001,
    ) as number[];
    const unit = Object.fromEntries(
      unitPriceNames.map((name, place) => [name, prices[place]]),
    ) as unknown as UnitPrices;
    const used = {
      inputTokens: 100 + index * 17,
      cachedInputTokens: index % 90,
      cacheWriteTokens: index % 7,
      outputTokens: 50 + index,
      reasoningTokens: index % 40,
      audioInputTokens: index % 3,
      audioOutputTokens: index % 2,
    };
    const isRefused = index % 50 === 0;
    const cost = costOf(unit, used, 1_100_000) + (index % 31 === 0 ? 12_345n : 0n);
    return usageRecord({
      ...used,
      receivedAt: start + index * 1_000,
      account: `account-${index % 3}`,
      keyId: `key_${index % 450}`,
      modelAnswered: `model-${index % 5}`,
      unitPrices: isRefused ? null : prices,
      groupPpm: 1_100_000,
      cost: isRefused ? "0" : String(index % 29 === 0 ? 1n : cost),
      user: index % 2 === 0 ? "ann" : null,
      outcome: isRefused ? "refused" : "complete",
    });
  });

onBoth("an export has every record once, and costs that add up to the ledger's", async (database) => {
  await sql`truncate usage_exports, usage, usage_totals, usage_days`.execute(database);
  const start = Date.parse("2031-06-10T10:00:00Z");
  await insertUsage(database, records(start));
  await insertUsage(database, [usageRecord({ receivedAt: Date.parse("2031-06-10T12:05:00Z") })]);
  const { run, read, list, options } = await exporting(database, "sums");
  await run();
  assert.deepEqual(await list(), ["focus/2031-06-10/10.csv", "usage/2031-06-10/10.jsonl"]);
  const check = async () => {
    const { rows } = await sql<{ cost: bigint; requests: bigint }>`
      select sum(cost)::bigint as cost, sum(requests)::bigint as requests from usage_totals
      where half_hour >= ${new Date(start)} and half_hour < ${new Date(start + hourMs)}`.execute(database);
    const { cost, requests } = rows[0] ?? assert.fail("no totals");
    const lines = (await read("usage/2031-06-10/10.jsonl")).trimEnd().split("\n");
    const exported = lines.map((line) => JSON.parse(line) as { id: string; cost: string; user: string | null });
    assert.equal(BigInt(new Set(exported.map(({ id }) => id)).size), requests);
    assert.equal(BigInt(lines.length), requests);
    assert.equal(
      exported.reduce((sum, record) => sum + exact(record.cost, 9), 0n),
      cost,
    );
    const focus = rowsIn(await read("focus/2031-06-10/10.csv"));
    for (const column of ["BilledCost", "EffectiveCost"])
      assert.equal(
        focus.reduce((sum, row) => sum + exact(row[column] ?? "", 9), 0n),
        cost,
        column,
      );
    for (const row of focus) {
      const product = (price: string | undefined) => exact(price ?? "") * BigInt(row.PricingQuantity ?? "");
      assert.equal(product(row.ListUnitPrice), exact(row.ListCost ?? ""));
      assert.equal(product(row.ContractedUnitPrice), exact(row.ContractedCost ?? ""));
    }
    return focus;
  };
  const focus = await check();
  const meters = [...new Set(focus.map(({ SkuMeter }) => SkuMeter))].sort();
  assert.ok(meters.includes("Other units") && meters.includes("Reasoning tokens"), meters.join());
  const mandatory = {
    ...{ BillingCurrency: "USD", BillingPeriodStart: "2031-06-01T00:00:00Z", BillingPeriodEnd: "2031-07-01T00:00:00Z" },
    ...{ ChargeCategory: "Usage", ChargeClass: "", ChargePeriodStart: "2031-06-10T10:00:00Z" },
    ...{
      ChargePeriodEnd: "2031-06-10T11:00:00Z",
      ServiceCategory: "AI and Machine Learning",
      InvoiceIssuerName: "Gateway",
    },
  };
  assert.deepEqual({ ...focus[0], ...mandatory }, focus[0]);
  // Nothing has changed, so nothing is written.
  const unwritten: ObjectStore = { ...options.objects, put: () => assert.fail("written again") };
  await run({ objects: unwritten });
  // A late record, an export that breaks off, and two processes at once.
  await insertUsage(database, [usageRecord({ receivedAt: start + 5, cost: "77", unitPrices: null })]);
  await insertUsage(database, [usageRecord({ receivedAt: start + 6, cost: "78" })]);
  await assert.rejects(run({ objects: failing(() => true) }), /the store is full/);
  await Promise.all([run(), run()]);
  await check();
});

const hourOf = (hour: number) => Date.parse(`2031-06-10T${String(hour).padStart(2, "0")}:00:00Z`);
const objectOf = (hour: number) => `usage/2031-06-10/${String(hour).padStart(2, "0")}.jsonl`;

onBoth("an exported hour is that of the ledger at its last change, whatever changed", async (database) => {
  const original = usageRecord({ receivedAt: hourOf(9) + 5, attempt: 1, status: 200, model: "before" });
  const changes: [name: string, records: UsageRecord[]][] = [
    ["another model at the same cost", [{ ...original, attempt: 2, model: "after" }]],
    ["another status at the same cost", [{ ...original, attempt: 2, status: 499, outcome: "left" }]],
    ["another cost", [{ ...original, attempt: 2, cost: "123456" }]],
    ["a late record without cost", [usageRecord({ receivedAt: hourOf(9) + 6, cost: "0" })]],
    ["two changes of cost that add up to nothing", [{ ...original, attempt: 2, cost: "1" }, original]],
  ];
  const stored = async ({ read }: Awaited<ReturnType<typeof exporting>>) =>
    (await read(objectOf(9)))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { id: string; attempts: number; model: string; status: number; cost: string })
      .map(({ id, model, status, cost }) => `${id} ${model} ${status} ${exact(cost, 9)}`)
      .sort();
  const ledger = async () => {
    const rows = await database.selectFrom("usage").select(["generation_id", "model", "status", "cost"]).execute();
    return rows.map(({ generation_id, model, status, cost }) => `${generation_id} ${model} ${status} ${cost}`).sort();
  };
  for (const [name, change] of changes)
    for (const moment of ["afterwards", "while it is written"]) {
      await sql`truncate usage_exports, usage, usage_totals, usage_days`.execute(database);
      await insertUsage(database, [original]);
      const each = await exporting(database, "changes");
      let isChanged = false;
      const changing: ObjectStore = {
        ...failing(() => false),
        async put(path, source) {
          const parts = await Array.fromAsync(source);
          if (!isChanged && moment !== "afterwards") await insertUsage(database, change);
          isChanged = true;
          await each.options.objects.put(
            path,
            (async function* () {
              yield* parts;
            })(),
          );
        },
      };
      await each.run({ objects: changing, formats: ["jsonl"] });
      if (moment === "afterwards") await insertUsage(database, change);
      await each.run();
      assert.deepEqual(await stored(each), await ledger(), `${name}, ${moment}`);
      await each.run({ objects: failing(() => true) });
    }
});

onBoth("hours are independent, and a store that was away gets them all", async (database) => {
  await sql`truncate usage_exports, usage, usage_totals, usage_days`.execute(database);
  const hours = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
  await insertUsage(
    database,
    hours.map((hour) => usageRecord({ receivedAt: hourOf(hour) })),
  );
  const { options, run, list } = await exporting(database, "independent");
  let attempts = 0;
  const isAway = failing(() => ++attempts > 0);
  await assert.rejects(run({ objects: isAway, formats: ["jsonl"] }), /02\.jsonl.*the store is full/);
  assert.ok(attempts < hours.length, "a store that is away is not asked for every hour");
  const bad = new Set([2, 3, 4, 5, 6].map(objectOf));
  const objects = failing((name) => bad.has(name), options.objects);
  for (let runs = 0; runs < 2; runs++)
    await assert.rejects(
      run({ objects, formats: ["jsonl"], clock: { ...clock, epoch: () => now + runs } }),
      /the store is full/,
    );
  assert.deepEqual(await list(), [7, 8, 9, 10, 11].map(objectOf), "the others are written, also after five bad ones");
  await run({ formats: ["jsonl"], clock: { ...clock, epoch: () => now + 5 } });
  assert.deepEqual(await list(), hours.map(objectOf));
});

onBoth("two processes do not write the same hour, and one that was away for long gives up", async (database) => {
  for (const moment of ["before", "after"] as const) {
    await sql`truncate usage_exports, usage, usage_totals, usage_days`.execute(database);
    await insertUsage(database, records(hourOf(9)).slice(0, 1_500));
    const { options, run: runWith, read } = await exporting(database, "claims");
    let time = now;
    const run = (objects?: ObjectStore) =>
      runWith({ ...(objects && { objects }), formats: ["jsonl"], clock: { ...clock, epoch: () => time } });
    const [asleep, wake] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const sleepy: ObjectStore = {
      ...failing(() => false),
      async put(name, source) {
        const parts = moment === "after" ? await Array.fromAsync(source) : source;
        asleep.resolve();
        await wake.promise;
        await options.objects.put(name, Readable.from(parts));
      },
    };
    const first = run(sleepy);
    await asleep.promise;
    await run(failing(() => assert.fail("written twice")));
    time += hourMs / 2;
    await insertUsage(database, [usageRecord({ receivedAt: hourOf(9) + 5 })]);
    await run();
    wake.resolve();
    await assert.rejects(first, /another process has begun/);
    const present = async () => (await read(objectOf(9))).trimEnd().split("\n").length;
    if (moment === "after") assert.equal(await present(), 1_500, "it has replaced the newer object");
    await run(moment === "after" ? undefined : failing(() => assert.fail("written again")));
    assert.equal(await present(), 1_501);
    await run(failing(() => assert.fail("written again")));
  }
});

onBoth("keys whose records are another account's by now hide no others", async (database) => {
  const receivedAt = now - hourMs;
  const { run, read } = await exporting(database, "moved");
  const charge = { model: "moved", modelAnswered: "moved", receivedAt, cost: "7" };
  const moved = usageRecord({ ...charge, isOwner: false, account: "a-before", keyId: "key_0" });
  await insertUsage(database, [
    moved,
    ...Array.from({ length: 250 }, (_, index) => usageRecord({ ...charge, account: "b-keys", keyId: `key_${index}` })),
  ]);
  await insertUsage(database, [{ ...moved, isOwner: true, account: "c-after" }]);
  await run();
  const hour = new Date(receivedAt).toISOString().slice(11, 13);
  const rows = rowsIn(await read(`focus/2031-06-10/${hour}.csv`)).filter(({ SkuId }) => SkuId === "moved");
  const sum = rows.reduce((total, { BilledCost = "" }) => total + exact(BilledCost, 9), 0n);
  assert.equal(sum, 251n * 7n);
});
