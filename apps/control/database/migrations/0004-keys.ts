/**
 * Keys by age over all accounts, the account of keys that name none, and the answers of requests
 * with an `Idempotency-Key`.
 */
import { type Kysely, sql } from "kysely";

const statements = [
  "create index keys_by_time on keys (created_at desc, id desc)",
  "insert into accounts (id, name, created_at) values ('default', 'default', date_trunc('milliseconds', now())) on conflict do nothing",
  `create table idempotent_answers (
    id text primary key,
    request text not null,
    answer text,
    version int,
    created_at timestamptz not null
  )`,
  "create index idempotent_answers_by_time on idempotent_answers (created_at)",
];

export async function up(database: Kysely<unknown>): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(database);
}
