/**
 * The records whose cost leaves out units without a price, in the totals. Records of before count
 * as well: one may be replaced, and is then taken from its totals.
 */
import { type Kysely, sql } from "kysely";

const dimensions = "account, key_id, model, group_name, upstream";

export async function up(database: Kysely<unknown>): Promise<void> {
  for (const table of ["usage_totals", "usage_days", "label_totals", "label_days"])
    await sql`alter table ${sql.table(table)} add column unpriced bigint not null default 0`.execute(database);
  await sql`
    create temporary table unpriced_records on commit drop as
    select date_bin('30 minutes', received_at, timestamptz '2000-01-01 00:00:00+00') as half_hour,
      date_trunc('day', received_at, 'UTC') as day, account, key_id, coalesce(model_answered, model) as model,
      group_name, upstream, user_name, session, tags
    from usage
    where jsonb_path_exists(other_units, 'strict $[*] ? (@[2] == null && (@[0] == "webSearches" || @[0] == "mapSearches" || @[0] == "fileSearches" || @[0] == "codeSessions"))', '{}', true)`.execute(
    database,
  );
  await sql`
    create temporary table unpriced_labels on commit drop as
    select r.*, label.* from unpriced_records r cross join lateral (
      select distinct l.kind, coalesce(v.value, '(other)') as value from (
        select 'user' as kind, user_name as value where user_name <> ''
        union all select 'session', session where session <> ''
        union all select 'tag', jsonb_array_elements_text(tags)
      ) l left join label_values v on (v.day, v.account, v.kind, v.value) = (r.day, r.account, l.kind, l.value)
    ) label`.execute(database);
  for (const [table, from, keys] of [
    ["usage_totals", "unpriced_records", `half_hour, ${dimensions}`],
    ["usage_days", "unpriced_records", `day, ${dimensions}`],
    ["label_totals", "unpriced_labels", `half_hour, ${dimensions}, kind, value`],
    ["label_days", "unpriced_labels", `day, ${dimensions}, kind, value`],
  ] as const) {
    const of = (name: string) => sql.raw(keys.replaceAll(/\w+/g, `${name}.$&`));
    await sql`
      update ${sql.table(table)} t set unpriced = s.records
      from (select ${sql.raw(keys)}, count(*) as records from ${sql.table(from)} group by ${sql.raw(keys)}) s
      where (${of("t")}) = (${of("s")})`.execute(database);
  }
}
