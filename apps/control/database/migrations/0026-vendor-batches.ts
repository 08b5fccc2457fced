/** The batch of a chunk at its vendor, and when it is looked at again. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table batch_chunks add column vendor_batch jsonb, add column poll_at timestamptz`.execute(database);
}
