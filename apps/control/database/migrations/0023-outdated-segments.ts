/** Objects of a chunk that its results have replaced, to be deleted. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table batch_chunks add column outdated jsonb not null default '[]'`.execute(database);
}
