/** The catalogue's stored entries, as revisions of which one is active. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table catalogue_revisions (
      number int primary key,
      parent int not null,
      document text not null,
      sha256 text not null,
      summary text not null,
      comment text not null,
      author_kind text not null,
      author_id text not null,
      author_name text not null,
      created_at timestamptz not null
    )`.execute(database);
  await sql`
    create table catalogue_active (
      id int primary key default 1 check (id = 1),
      revision int not null
    )`.execute(database);
}
