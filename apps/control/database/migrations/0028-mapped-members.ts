/** Memberships that follow from a provider's groups. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table members add column is_mapped boolean not null default false`.execute(database);
}
