/** Totals of the records with a user, a session or a tag, by each of them. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table usage add column session text`.execute(database);
  await sql`create index usage_by_user on usage (user_name, received_at desc) where user_name is not null`.execute(
    database,
  );
  await sql`create index usage_by_session on usage (session, received_at desc) where session is not null`.execute(
    database,
  );
  for (const [table, like, time] of [
    ["label_totals", "usage_totals", "half_hour"],
    ["label_days", "usage_days", "day"],
  ] as const) {
    await sql`
      create table ${sql.table(table)} (
        like ${sql.table(like)} including defaults,
        kind text not null,
        value text not null,
        primary key (kind, ${sql.ref(time)}, account, value, key_id, model, group_name, upstream)
      )`.execute(database);
    await sql`create index on ${sql.table(table)} (kind, account, ${sql.ref(time)})`.execute(database);
  }
  await sql`
    create table label_values (
      day timestamptz not null,
      account text not null,
      kind text not null,
      value text not null,
      primary key (day, account, kind, value)
    )`.execute(database);
}
