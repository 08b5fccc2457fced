/** Runs tests on both databases: Debian's Postgres, and the embedded one. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type Database, type OpenDatabase, openDatabase } from "../../apps/control/database/database.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { isLong } from "../support/long.ts";
import { startPostgres } from "../support/postgres.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-control-"));
const server = await startPostgres();
let embedded: Promise<OpenDatabase> | undefined;
const openEmbedded = async (): Promise<OpenDatabase> =>
  openDatabase({ url: undefined, directory: await embeddedDirectory(join(directory, "embedded")) });
after(async () => {
  await (await embedded)?.[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** A new, empty Postgres database. */
export const openPostgres = async (): Promise<OpenDatabase> =>
  openDatabase({ url: await server.createDatabase(), directory });

/** Declares a test for each kind of database. Tests share the embedded one, so each uses ids of its own. */
export function onBoth(name: string, run: (database: Database) => Promise<void>): void {
  test(`${name} (Postgres)`, async () => {
    await using opened = await openPostgres();
    await run(opened.database);
  });
  test(`${name} (embedded)`, async () => {
    embedded ??= openEmbedded();
    await run((await embedded).database);
  });
}

/** On Postgres; `npm run test:long` runs it on both. The ledger's tests always run on both. */
export function onPostgres(name: string, run: (database: Database) => Promise<void>): void {
  if (isLong) onBoth(name, run);
  else
    test(`${name} (Postgres)`, async () => {
      await using opened = await openPostgres();
      await run(opened.database);
    });
}
