/**
 * The groups that an account's keys may use. An array and not JSON, because the version before
 * writes back every column that it reads.
 */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table accounts add column groups text[]`.execute(database);
}
