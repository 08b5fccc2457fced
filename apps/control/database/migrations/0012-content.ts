/** Content of requests, of accounts that store it. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    alter table accounts
      add column content_days int,
      add column content_key text,
      add column content_secret text`.execute(database);
  await sql`
    create table content (
      generation_id text primary key,
      account text not null references accounts (id),
      received_at timestamptz not null,
      sealed bytea not null
    )`.execute(database);
  // It is deflated and encrypted already.
  await sql`alter table content alter column sealed set storage external`.execute(database);
  await sql`create index content_by_time on content (account, received_at)`.execute(database);
}
