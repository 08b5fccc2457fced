/** Batches of requests, and the chunks of lines in which they run. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table batches (
      id text primary key,
      account text not null references accounts (id),
      key_id text not null,
      dialect text not null,
      endpoint text not null,
      model text,
      name text,
      state text not null,
      input_file_id text,
      output_file_id text,
      error_file_id text,
      output_expires_seconds int,
      metadata jsonb,
      faults jsonb not null default '[]',
      stop_reason text,
      is_cancelled boolean not null default false,
      total int not null default 0,
      succeeded int,
      errored int,
      cancelled int,
      expired int,
      tokens bigint not null default 0,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      started_at timestamptz,
      cancelling_at timestamptz,
      finalizing_at timestamptz,
      ended_at timestamptz,
      lease_until timestamptz,
      claimed_at timestamptz,
      runs int not null default 0
    )`.execute(database);
  await sql`create index batches_by_account on batches (account, created_at desc, id desc)`.execute(database);
  await sql`create index batches_open on batches (created_at) where ended_at is null`.execute(database);
  await sql`
    create table batch_chunks (
      batch_id text not null references batches (id) on delete cascade,
      place int not null,
      first_line int not null,
      lines int not null,
      is_done boolean not null default false,
      succeeded int not null default 0,
      errored int not null default 0,
      cancelled int not null default 0,
      expired int not null default 0,
      segments jsonb not null default '[]',
      started_at timestamptz,
      lease_until timestamptz,
      runs int not null default 0,
      primary key (batch_id, place)
    )`.execute(database);
  await sql`alter table usage add column batch_id text`.execute(database);
  await sql`create index usage_by_batch on usage (batch_id) where batch_id is not null`.execute(database);
  await sql`create index batch_chunks_open on batch_chunks (batch_id, place) where not is_done`.execute(database);
}
