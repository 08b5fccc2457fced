/** The calls of upstreams of requests whose first call failed. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table usage add column call_log jsonb`.execute(database);
}
