/** Whether an invitation's link went by mail only: then whoever has it has the address too. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table invitations add column is_mailed boolean not null default false`.execute(database);
}
