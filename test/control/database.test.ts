import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { sql } from "kysely";
import { StartupFault } from "#service/startup.ts";
import { openDatabase } from "../../apps/control/database/database.ts";
import { migrate } from "../../apps/control/database/migrations.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { startPostgres } from "../support/postgres.ts";

const server = await startPostgres();
const directory = await mkdtemp(join(tmpdir(), "sluice-database-"));
after(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

test("several processes that start at once migrate a new database together", async () => {
  const url = await server.createDatabase();
  const opened = await Promise.all(Array.from({ length: 3 }, () => openDatabase({ url, directory })));
  for (const { database } of opened) {
    const { rows } = await sql<{ count: number }>`select count(*)::int as count from kysely_migration`.execute(
      database,
    );
    assert.ok((rows[0]?.count ?? 0) > 0);
  }
  await Promise.all(opened.map((each) => each[Symbol.asyncDispose]()));
});

test("the release before starts with the tables of the next one, and no earlier one does", async () => {
  const url = await server.createDatabase();
  await using opened = await openDatabase({ url, directory });
  const { database } = opened;
  await sql`insert into kysely_migration (name, timestamp) values ('9999-of-the-next-release', '2099-01-01T00:00:00.000Z')`.execute(
    database,
  );
  await migrate(database, { oldest: 1, current: 2 });
  await migrate(database, { oldest: 1, current: 1 });
  await migrate(database, { oldest: 2, current: 3 });
  await migrate(database, { oldest: 1, current: 2 });
  await assert.rejects(openDatabase({ url, directory }), (error: Error) => {
    assert.ok(error instanceof StartupFault);
    assert.match(error.message, /its tables are those of a later version/);
    return true;
  });
});

test("a second process cannot open the embedded database, and says who has it", async () => {
  const embedded = await embeddedDirectory(join(directory, "embedded"));
  const first = await openDatabase({ url: undefined, directory: embedded });
  await assert.rejects(openDatabase({ url: undefined, directory: embedded }), (error: Error) => {
    assert.ok(error instanceof StartupFault);
    assert.match(error.message, new RegExp(`^process ${process.pid} already uses the embedded database`));
    return true;
  });
  await first[Symbol.asyncDispose]();
  const again = await openDatabase({ url: undefined, directory: embedded });
  await again[Symbol.asyncDispose]();
});

test("an embedded database that is damaged is a startup error that says what to do", async () => {
  const embedded = await embeddedDirectory(join(directory, "damaged"));
  const data = join(embedded, "data");
  await writeFile(join(data, "global", "pg_control"), Buffer.alloc(8_192));
  await assert.rejects(openDatabase({ url: undefined, directory: embedded }), (error: Error) => {
    assert.ok(error instanceof StartupFault);
    assert.match(error.message, /^the embedded database in .+\/data cannot be opened \(.+\)\. If a power cut/);
    assert.ok(!error.message.includes("\n"));
    return true;
  });
});

test("a database that is away or refuses is a startup error in one line, without the password", async () => {
  const unreachable = "postgres://sluice:secret-word@127.0.0.1:1/sluice";
  const invalid = "postgres://sluice:secret-word@host:port/sluice";
  for (const url of [unreachable, invalid, (await server.createDatabase()).replace(/\/test_\d+/, "/missing")])
    await assert.rejects(openDatabase({ url, directory }), (error: Error) => {
      assert.ok(error instanceof StartupFault, error.message);
      assert.match(error.message, /^the database of DATABASE_URL cannot be used: .+/);
      assert.ok(!error.message.includes("secret-word") && !error.message.includes("\n"));
      return true;
    });
});

test("queries work again after the server was killed, and a broken connection does not end the process", async () => {
  const url = await server.createDatabase();
  await using opened = await openDatabase({ url, directory });
  const { database } = opened;
  const cut = database.transaction().execute(async (transaction) => {
    await sql`select 1`.execute(transaction);
    await server.kill();
    await sql`select 1`.execute(transaction);
  });
  await assert.rejects(cut);
  await server.start();
  const { rows } = await sql<{ one: number }>`select 1 as one`.execute(database);
  assert.equal(rows[0]?.one, 1);
});
