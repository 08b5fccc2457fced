/** Saved views: the filters of a page under a name, of a person, or of an account's members. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table views (
      id text primary key,
      user_id text not null references users on delete cascade,
      account text references accounts on delete cascade,
      page text not null,
      name text not null,
      search jsonb not null,
      created_at timestamptz not null
    )`.execute(database);
  await sql`create index views_of_user on views (user_id)`.execute(database);
  await sql`create index views_of_account on views (account) where account is not null`.execute(database);
}
