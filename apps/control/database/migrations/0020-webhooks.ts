/** Webhooks of accounts, and what they get. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table webhooks (
      id text primary key,
      account text not null references accounts (id),
      name text not null,
      url text not null,
      events jsonb not null,
      secret text not null,
      previous_secret text,
      previous_secret_until timestamptz,
      created_at timestamptz not null,
      disabled_at timestamptz,
      disabled_reason text,
      failing_since timestamptz
    )`.execute(database);
  await sql`create index webhooks_by_account on webhooks (account, created_at desc, id desc)`.execute(database);
  await sql`
    create table webhook_deliveries (
      id text primary key,
      webhook_id text not null references webhooks (id) on delete cascade,
      account text not null,
      event_id text not null,
      type text not null,
      subject text not null,
      created_at timestamptz not null,
      state text not null default 'pending',
      started_at timestamptz not null,
      tries int not null default 0,
      attempts jsonb not null default '[]',
      next_attempt_at timestamptz,
      delivered_at timestamptz
    )`.execute(database);
  await sql`
    create index webhook_deliveries_due on webhook_deliveries (webhook_id, next_attempt_at)
    where next_attempt_at is not null`.execute(database);
  await sql`
    create index webhook_deliveries_by_account on webhook_deliveries (account, created_at desc, id desc)`.execute(
    database,
  );
  await sql`alter table batches add column is_announced boolean not null default false`.execute(database);
  await sql`update batches set is_announced = true where ended_at is not null`.execute(database);
  await sql`
    create index batches_unannounced on batches (ended_at) where ended_at is not null and not is_announced`.execute(
    database,
  );
}
