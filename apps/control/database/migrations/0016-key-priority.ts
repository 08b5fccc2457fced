/** The priority of a key's requests, in place of that of its group. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table keys add column priority text`.execute(database);
}
