/** Files that arrive in parts. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    alter table files
      add column upload text,
      add column place int,
      add column life_seconds int,
      add column parts int not null default 0`.execute(database);
  await sql`create index files_by_upload on files (upload, place) where upload is not null`.execute(database);
}
