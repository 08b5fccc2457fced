/** Runs tests on both databases: Debian's Postgres, and the embedded one. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type Database, type OpenDatabase, openDatabase } from "../../apps/control/database/database.ts";
import { atEnd } from "../support/at-end.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { isLong } from "../support/long.ts";
import { sharedPostgres } from "../support/postgres.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-control-"));
atEnd(() => rm(directory, { recursive: true, force: true }));

/** The embedded database of the file whose tests are declared. */
let embedded: EmbeddedOfFile | undefined;

class EmbeddedOfFile {
  #opened: Promise<OpenDatabase> | undefined;

  open(): Promise<OpenDatabase> {
    this.#opened ??= mkdtemp(join(directory, "embedded-"))
      .then(embeddedDirectory)
      .then((own) => openDatabase({ url: undefined, directory: own }));
    return this.#opened;
  }

  async close(): Promise<void> {
    await (await this.#opened)?.[Symbol.asyncDispose]();
  }
}

function embeddedOfFile(): EmbeddedOfFile {
  if (embedded !== undefined) return embedded;
  const own = new EmbeddedOfFile();
  after(() => {
    embedded = undefined;
    return own.close();
  });
  embedded = own;
  return own;
}

/** A new Postgres database without rows. */
export const openPostgres = async (): Promise<OpenDatabase> =>
  openDatabase({ url: await (await sharedPostgres()).createTables(), directory });

/**
 * Declares a test for each kind of database. The tests of a file share the embedded one, so each
 * uses ids of its own.
 */
export function onBoth(name: string, run: (database: Database) => Promise<void>): void {
  const own = embeddedOfFile();
  test(`${name} (Postgres)`, async () => {
    await using opened = await openPostgres();
    await run(opened.database);
  });
  test(`${name} (embedded)`, async () => {
    await run((await own.open()).database);
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
