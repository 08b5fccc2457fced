import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#service/clock.ts";
import { databaseCommand } from "../../apps/cli/database.ts";
import { type Database, openDatabase } from "../../apps/control/database/database.ts";
import { exportDatabase, importDatabase, TransferFault } from "../../apps/control/database/transfer.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { UsagePartitions } from "../../apps/control/ledger/partitions.ts";
import { startControl } from "../support/control.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { catalogueOf } from "../support/gateway.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { startRedis } from "../support/redis.ts";
import { openPostgres } from "./databases.ts";
import { usageRecord } from "./records.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-transfer-"));
after(() => rm(directory, { recursive: true, force: true }));
let databases = 0;
const openEmbedded = async () =>
  openDatabase({ url: undefined, directory: await embeddedDirectory(join(directory, String(++databases))) });

async function exported(database: Database): Promise<string> {
  const output = new PassThrough();
  const written = text(output);
  await exportDatabase(database, output);
  output.end();
  return written;
}

const sortedLines = (text: string) =>
  text
    .split("\n")
    .map((line) => line.replace(/ /g, ""))
    .sort()
    .join("\n");

async function* linesOf(exported: string): AsyncGenerator<string> {
  yield* exported.split("\n");
}

async function fill(database: Database): Promise<void> {
  const now = new Date("2026-05-04T03:02:01.987Z");
  await database
    .insertInto("accounts")
    .values({
      id: "acme",
      name: 'Acmé "quoted"\n',
      created_at: now,
      disabled_at: null,
      groups: ["default", 'a "b", c'],
    })
    .execute();
  await database
    .insertInto("settings")
    .values({ id: 1, version: 3, stored: '{"name":"Acmé"}', sealed: "{}", logo: null })
    .execute();
  const key = { hint: "abcd", account: "acme", name: "k", group_name: "default", tags: '["a"]', created_at: now };
  await database
    .insertInto("keys")
    .values({ ...key, id: "key_new", hash: "h2", limits: '{"budgetPerDay":0.1}' })
    .execute();
  const old = { ...key, id: "key_old", hash: "h1", replaced_by: "key_new", created_at: new Date(now.getTime() - 1) };
  await database.insertInto("keys").values(old).execute();
  const records = Array.from({ length: 2_500 }, (_, index) =>
    usageRecord({
      receivedAt: now.getTime() - index * 60_000,
      cost: String(index < 10 ? 9_007_199_254_740_993n : BigInt(index)),
      tags: ["é"],
    }),
  );
  await new UsagePartitions(database, () => 10_000).create(
    records.map(({ receivedAt }) => receivedAt),
    Date.now(),
  );
  await insertUsage(database, records);
}

test("an export moves everything between the embedded database and Postgres and back, unchanged", async () => {
  await using embedded = await openEmbedded();
  await using postgres = await openPostgres();
  await using again = await openEmbedded();
  await fill(embedded.database);
  const first = await exported(embedded.database);
  const rows = first.trimEnd().split("\n").length - 1;
  assert.equal(await importDatabase(postgres.database, linesOf(first), { clock: systemClock }), rows);
  const second = await exported(postgres.database);
  assert.equal(await importDatabase(again.database, linesOf(second), { clock: systemClock }), rows);
  assert.equal(sortedLines(await exported(again.database)), sortedLines(first));
  const { rows: sums } = await sql<{ cost: bigint; totals: bigint }>`
    select (select sum(cost)::bigint from usage) as cost, (select sum(cost)::bigint from usage_totals) as totals`.execute(
    again.database,
  );
  assert.equal(sums[0]?.cost, sums[0]?.totals);
});

test("an import takes only an export, only of this version, only into an empty database, and all or nothing", async () => {
  await using database = await openPostgres();
  const of = (input: string) => importDatabase(database.database, linesOf(input), { clock: systemClock });
  await assert.rejects(of("hello"), TransferFault);
  await assert.rejects(
    of('{"sluice":"database","migration":"0000-older"}'),
    /import it with the version that wrote it/,
  );
  await fill(database.database);
  const whole = await exported(database.database);
  await assert.rejects(of(whole), /not empty \(accounts, .*keys.*usage\); --replace deletes/);
  await using other = await openPostgres();
  const cut = `${whole.split("\n").slice(0, 1_500).join("\n")}\n{"table":"sessions","row":{}}\n`;
  await assert.rejects(
    importDatabase(other.database, linesOf(cut), { clock: systemClock }),
    /line 1501 is not a row of an export/,
  );
  assert.equal(
    await importDatabase(other.database, linesOf(whole), { clock: systemClock }),
    whole.trimEnd().split("\n").length - 1,
  );
});

test("an import into a control that has started replaces what control wrote itself, and other rows only with `replaces`", async () => {
  await using source = await openPostgres();
  await fill(source.database);
  const whole = await exported(source.database);
  await using redis = await startRedis();
  const url = await (await sharedPostgres()).createTables();
  const SLUICE_CATALOGUE = join(directory, "catalogue.yaml");
  await writeFile(SLUICE_CATALOGUE, catalogueOf([{ id: "a", model: "a" }]).replace(/\$\{\w+\}/, "http://a.example"));
  await using control = await startControl({ DATABASE_URL: url, REDIS_URL: redis.url, SLUICE_CATALOGUE });
  await using target = await openDatabase({ url, directory });
  const { rows: made } = await sql`select from users union all select from secrets`.execute(target.database);
  assert.equal(made.length, 2, "the operator and the secret of cookies");
  const read = (replaces: boolean) => importDatabase(target.database, linesOf(whole), { clock: systemClock, replaces });
  const count = whole.trimEnd().split("\n").length - 1;
  assert.equal(await read(false), count);
  assert.equal(sortedLines(await exported(target.database)), sortedLines(whole));
  assert.equal((await control.call("POST", "/accounts", { id: "later", name: "later" })).status, 201);
  await assert.rejects(read(false), /not empty/);
  assert.equal(await read(true), count);
  assert.equal(sortedLines(await exported(target.database)), sortedLines(whole));
});

test("an export overwrites a file only with --replace", async () => {
  const file = join(directory, "existing");
  const run = async (...args: string[]) => {
    const environment = { ...process.env, DATABASE_DIRECTORY: await embeddedDirectory(join(directory, "exported")) };
    return databaseCommand(args, environment, directory);
  };
  await writeFile(file, "mine");
  assert.equal(await run("export", "existing"), 1);
  assert.equal(await readFile(file, "utf8"), "mine");
  assert.equal(await run("export", "--replace", "existing"), 0);
  assert.match(await readFile(file, "utf8"), /^\{"sluice":"database"/);
});

test("an export that cannot be written fails with one line", async () => {
  const fullDisk = openSync("/dev/full", "w");
  const { NODE_COMPILE_CACHE = "" } = process.env;
  const env = { DATABASE_URL: await (await sharedPostgres()).createTables(), NODE_COMPILE_CACHE };
  const missing = join(directory, "missing", "file");
  for (const [file, reason] of [
    [missing, /^sluice db export: ENOENT: .*\n$/],
    ["-", /^sluice db export: ENOSPC: .*\n$/],
  ] as const) {
    const { pathname: program } = new URL("../../apps/control/transfer.ts", import.meta.url);
    const child = spawn(process.execPath, [program, "export", file], { env, stdio: ["ignore", fullDisk, "pipe"] });
    const [errors, [code]] = await Promise.all([text(child.stderr as Readable), once(child, "exit")]);
    assert.match(errors, reason);
    assert.equal(code, 1);
  }
  closeSync(fullDisk);
});
