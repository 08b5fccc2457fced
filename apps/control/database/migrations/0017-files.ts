/** Files of accounts; their bytes are in the object store. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table files (
      id text primary key,
      account text not null references accounts (id),
      key_id text not null,
      name text not null,
      purpose text not null,
      media_type text not null,
      bytes bigint not null,
      state text not null,
      sealed_key text not null,
      created_at timestamptz not null,
      expires_at timestamptz
    )`.execute(database);
  await sql`create index files_by_time on files (account, created_at, id)`.execute(database);
  await sql`create index files_by_expiry on files (expires_at)`.execute(database);
}
