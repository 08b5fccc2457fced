/**
 * The database of control: a Postgres server, or the embedded Postgres without one. Both run the
 * same SQL, for Postgres 15 and newer.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Kysely, PGliteDialect, PostgresDialect } from "kysely";
import { Pool, types } from "pg";
import { takeLock } from "#service/lock.js";
import { StartupFault } from "#service/startup.ts";
import { connectionsMax, databaseConnectMs, statementMs } from "../bounds.ts";
import { copyingPool } from "./copying-pool.ts";
import { openEmbedded } from "./embedded.ts";
import { migrate } from "./migrations.ts";
import type { Tables } from "./tables.ts";

export type Database = Kysely<Tables>;

export interface OpenDatabase extends AsyncDisposable {
  readonly database: Database;
  readonly kind: "postgres" | "embedded";
}

/** The type `bigint` of Postgres: https://www.postgresql.org/docs/current/datatype-numeric.html */
const int8 = 20;

/**
 * Opens the database and brings its tables up to date. Throws a StartupFault for a database that
 * cannot be used. `directory` is that of the embedded one.
 */
export async function openDatabase(options: { url: string | undefined; directory: string }): Promise<OpenDatabase> {
  await using opened = new AsyncDisposableStack();
  const { url } = options;
  const database = url === undefined ? await openLocal(options.directory, opened) : openServer(url);
  opened.defer(() => database.destroy());
  try {
    await migrate(database);
  } catch (error) {
    const place = url === undefined ? `in ${options.directory}` : "of DATABASE_URL";
    throw new StartupFault(`the database ${place} cannot be used: ${(error as Error).message.split("\n", 1)[0]}`);
  }
  const resources = opened.move();
  return {
    database,
    kind: url === undefined ? "embedded" : "postgres",
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

function openServer(url: string): Database {
  types.setTypeParser(int8, BigInt);
  const pool = new Pool({
    connectionString: url,
    max: connectionsMax,
    connectionTimeoutMillis: databaseConnectMs,
    statement_timeout: statementMs,
    application_name: "sluice",
  });
  // A connection that breaks fails its query, if it has one, and is replaced by the next query.
  // Without listeners its error would end the process.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: copyingPool(pool) }) });
}

async function openLocal(directory: string, opened: AsyncDisposableStack): Promise<Database> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const lock = takeLock(join(directory, "lock"));
  if (lock.kind === "locked")
    throw new StartupFault(
      `process ${lock.pid} already uses the embedded database in ${directory}; stop it first (several processes at once need DATABASE_URL)`,
    );
  opened.defer(lock.release);
  const data = join(directory, "data");
  const pglite = await openEmbedded(data).catch((error: Error) => {
    throw new StartupFault(
      `the embedded database in ${data} cannot be opened (${error.message.split("\n", 1)[0]}). If a power cut or a full disk damaged it: move that directory away, start again, and import your last export (npx sluice db import --replace; docs/backup.md). Without one, the keys that Redis has go on`,
    );
  });
  return new Kysely<Tables>({ dialect: new PGliteDialect({ pglite }) });
}
