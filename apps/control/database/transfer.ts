/**
 * Export and import of the whole database as lines of JSON: for backups, and for the move between
 * the embedded database and a Postgres server. The first line names the state of the tables, each
 * further line is a row of a table. Postgres itself turns rows into JSON and back, so every type
 * survives.
 */

import { once } from "node:events";
import type { Writable } from "node:stream";
import { type Kysely, type RawBuilder, sql, type Transaction } from "kysely";
import type { Clock } from "#service/clock.ts";
import { exportRowsMax, importBytesMax, importRowsMax } from "../bounds.ts";
import { UsagePartitions } from "../ledger/partitions.ts";
import { firstEmail } from "../sign-in/operators.ts";
import { authSecretName } from "../sign-in/secret.ts";
import type { Database } from "./database.ts";
import type { Tables } from "./tables.ts";

/**
 * In an order in which every row finds what it refers to. Rate limits of sign-in are not worth
 * keeping.
 */
const tables = [
  "users",
  "logins",
  "second_factors",
  "secrets",
  "accounts",
  "keys",
  "files",
  "members",
  "invitations",
  "tokens",
  "audit",
  "alerts",
  "settings",
  "views",
  "webhooks",
  "catalogue_revisions",
  "catalogue_active",
  "credentials",
  "usage_totals",
  "usage_days",
  "label_totals",
  "label_days",
  "label_values",
  "usage_exports",
  "usage",
] as const;
type TableName = (typeof tables)[number];

interface Header {
  sluice: "database";
  /** The name of the last migration. */
  migration: string;
}

export class TransferFault extends Error {}

/** Writes everything as of one moment. Resolves to the number of rows. */
export async function exportDatabase(database: Database, output: Writable): Promise<number> {
  return database
    .transaction()
    .setIsolationLevel("repeatable read")
    .execute(async (transaction) => {
      const header: Header = { sluice: "database", migration: await migrationOf(transaction) };
      await send(output, `${JSON.stringify(header)}\n`);
      let count = 0;
      for (const table of tables) count += await exportTable(transaction, table, output);
      return count;
    });
}

async function exportTable(transaction: Transaction<Tables>, table: TableName, output: Writable): Promise<number> {
  await sql`declare rows no scroll cursor for select to_jsonb(r)::text as row from ${sql.table(table)} r ${sql.raw(orders[table] ?? "")}`.execute(
    transaction,
  );
  let count = 0;
  for (;;) {
    const { rows } = await sql<{ row: string }>`fetch ${sql.lit(exportRowsMax)} from rows`.execute(transaction);
    if (rows.length === 0) break;
    count += rows.length;
    const lines = rows.map(({ row }) => `{"table":"${table}","row":${row}}\n`).join("");
    await send(output, lines);
  }
  await sql`close rows`.execute(transaction);
  return count;
}

/** A key refers to the one that replaces it, which is younger. */
const orders: Partial<Record<TableName, string>> = { keys: "order by created_at desc" };

/** Rows that control itself writes at its start, in place of the export's own ones. */
const madeAtStart: Partial<Record<TableName, RawBuilder<unknown>>> = {
  accounts: sql`id = 'default'`,
  audit: sql`actor_kind = 'system'`,
  secrets: sql`name = ${authSecretName}`,
  users: sql`email = ${firstEmail}`,
};

/** The tables that have rows of somebody. */
async function tablesInUse(transaction: Transaction<Tables>): Promise<TableName[]> {
  const inUse: TableName[] = [];
  for (const table of tables) {
    const made = madeAtStart[table] ?? sql`false`;
    const { rows } = await sql`select from ${sql.table(table)} where not ${made} limit 1`.execute(transaction);
    if (rows.length > 0) inUse.push(table);
  }
  return inUse;
}

/**
 * Reads an export, all or nothing, in place of what the database has. Resolves to the number of
 * rows. Throws a TransferFault for anything else than an export of this version and, without
 * `replaces`, for a database in which somebody has written anything. Control may run meanwhile: its
 * writes wait.
 */
export async function importDatabase(
  database: Database,
  lines: AsyncIterable<string>,
  { clock, replaces = false }: { clock: Clock; replaces?: boolean },
): Promise<number> {
  return database.transaction().execute(async (transaction) => {
    const list = sql.join(tables.map((table) => sql.table(table)));
    await sql`lock table ${list} in share row exclusive mode`.execute(transaction);
    const inUse = replaces ? [] : await tablesInUse(transaction);
    if (inUse.length > 0)
      throw new TransferFault(
        `the database is not empty (${inUse.join(", ")}); --replace deletes everything that it has`,
      );
    await sql`truncate ${list} cascade`.execute(transaction);
    const partitions = new UsagePartitions(transaction, () => Number.MAX_SAFE_INTEGER);
    let current: { table: TableName; rows: string[]; bytes: number } | undefined;
    let count = 0;
    let number = 0;
    const flush = async () => {
      if (current?.table === "usage") await partitions.create(receiptTimesOf(current.rows), clock.epoch());
      if (current !== undefined) await insertRows(transaction, current.table, current.rows);
      current = undefined;
    };
    for await (const line of lines) {
      number++;
      if (number === 1) {
        await checkHeader(transaction, line);
        continue;
      }
      if (line === "") continue;
      const { table, row } = rowOf(line, number);
      if (current?.table !== table || current.rows.length >= importRowsMax || current.bytes > importBytesMax)
        await flush();
      current ??= { table, rows: [], bytes: 0 };
      current.rows.push(row);
      current.bytes += row.length;
      count++;
    }
    if (number === 0) throw new TransferFault("the input is empty");
    await flush();
    return count;
  });
}

/**
 * The lines of a text that arrives in parts, without their ends. A line may be as long as an
 * import's largest row.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + (typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true }))).split("\n");
    rest = lines.pop() as string;
    if (rest.length > importBytesMax) throw new TransferFault("the input has a line that is too long");
    yield* lines;
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}

const receiptTimesOf = (rows: readonly string[]): number[] =>
  rows.map((row) => Date.parse((JSON.parse(row) as { received_at: string }).received_at));

async function insertRows(transaction: Transaction<Tables>, table: TableName, rows: readonly string[]): Promise<void> {
  await sql`insert into ${sql.table(table)}
    select * from jsonb_populate_recordset(null::${sql.table(table)}, ${`[${rows.join(",")}]`}::jsonb)`.execute(
    transaction,
  );
}

function rowOf(line: string, number: number): { table: TableName; row: string } {
  const [, table, row] = /^\{"table":"([a-z_]{1,40})","row":(\{.*\})\}$/.exec(line) ?? [];
  if (row === undefined || !(tables as readonly string[]).includes(table ?? ""))
    throw new TransferFault(`line ${number} is not a row of an export`);
  return { table: table as TableName, row };
}

async function checkHeader(transaction: Transaction<Tables>, line: string): Promise<void> {
  let header: Partial<Header> = {};
  try {
    header = JSON.parse(line) as Partial<Header>;
  } catch {
    // Reported below.
  }
  if (header.sluice !== "database") throw new TransferFault("the input is not an export of a Sluice database");
  const migration = await migrationOf(transaction);
  if (header.migration !== migration)
    throw new TransferFault(
      `the export has the tables of ${header.migration} and this version those of ${migration}; import it with the version that wrote it, and update after that`,
    );
}

async function migrationOf(database: Kysely<Tables>): Promise<string> {
  const { rows } = await sql<{ name: string }>`select max(name) as name from kysely_migration`.execute(database);
  return rows[0]?.name ?? "";
}

/** Rejects once nobody takes the output any more. */
async function send(output: Writable, lines: string): Promise<void> {
  if (output.destroyed) throw output.errored ?? new TransferFault("nobody takes the output any more");
  if (!output.write(lines)) await once(output, "drain");
}
