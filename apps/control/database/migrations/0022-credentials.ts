/** Credentials of upstreams that operators store. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table credentials (
      name text primary key,
      version int not null,
      sealed text not null,
      hint text not null,
      previous_version int,
      previous_sealed text,
      previous_until timestamptz,
      created_at timestamptz not null,
      updated_at timestamptz not null
    )`.execute(database);
  await sql`alter table catalogue_active add column credentials int not null default 0`.execute(database);
}
