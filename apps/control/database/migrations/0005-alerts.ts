/** Alerts about budgets and keys, each once, and their delivery to the webhook. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table alerts (
      id text primary key,
      at timestamptz not null,
      kind text not null,
      account text,
      subject text not null,
      detail jsonb not null,
      occasion text not null unique,
      attempts int not null default 0,
      next_attempt_at timestamptz,
      delivered_at timestamptz
    )`.execute(database);
  await sql`create index alerts_by_time on alerts (at desc, id)`.execute(database);
  await sql`create index alerts_to_deliver on alerts (next_attempt_at) where next_attempt_at is not null`.execute(
    database,
  );
}
