/**
 * The ledger: usage records, partitioned by day, and their totals by half hour and by day (UTC).
 */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table usage (
      generation_id text not null,
      request_id text not null,
      attempt int not null,
      is_owner boolean not null,
      received_at timestamptz not null,
      account text not null,
      key_id text not null,
      group_name text not null,
      model text not null,
      model_answered text,
      upstream text not null,
      target text,
      operation text,
      dialect text,
      upstream_dialect text,
      queue text,
      is_streamed boolean not null,
      status int not null,
      outcome text not null,
      error_code text,
      input_tokens bigint not null,
      cached_input_tokens bigint not null,
      cache_write_tokens bigint not null,
      output_tokens bigint not null,
      reasoning_tokens bigint not null,
      audio_input_tokens bigint not null,
      audio_output_tokens bigint not null,
      images bigint not null,
      image_size text,
      image_quality text,
      is_estimated boolean not null,
      unit_prices jsonb,
      price_version text,
      service_tier text,
      group_ppm bigint not null,
      cost bigint not null,
      upstream_cost bigint,
      queued_ms bigint,
      dispatched_ms bigint,
      bound_ms bigint,
      first_content_ms bigint,
      duration_ms bigint not null,
      calls int not null,
      chunks bigint not null,
      bytes bigint not null,
      body_bytes bigint not null,
      upstream_request_id text,
      user_name text,
      tags jsonb not null,
      trace_id text,
      primary key (generation_id, received_at)
    ) partition by range (received_at)`.execute(database);
  // For records of a clock that is far off.
  await sql`create table usage_other partition of usage default`.execute(database);
  await sql`create index usage_by_time on usage (received_at desc, generation_id)`.execute(database);
  await sql`create index usage_by_account on usage (account, received_at desc, generation_id)`.execute(database);
  await sql`create index usage_by_key on usage (key_id, received_at desc, generation_id)`.execute(database);
  await sql`create index usage_by_upstream_request on usage (upstream_request_id) where upstream_request_id is not null`.execute(
    database,
  );
  await sql`
    create table usage_totals (
      half_hour timestamptz not null,
      account text not null,
      key_id text not null,
      model text not null,
      group_name text not null,
      upstream text not null,
      requests bigint not null,
      refused bigint not null,
      failed bigint not null,
      input_tokens bigint not null,
      cached_input_tokens bigint not null,
      cache_write_tokens bigint not null,
      output_tokens bigint not null,
      reasoning_tokens bigint not null,
      audio_input_tokens bigint not null,
      audio_output_tokens bigint not null,
      images bigint not null,
      cost bigint not null,
      upstream_cost bigint not null,
      margin_cost bigint not null,
      first_contents bigint not null,
      first_content_ms bigint not null,
      duration_ms bigint not null,
      primary key (half_hour, account, key_id, model, group_name, upstream)
    )`.execute(database);
  await sql`create index usage_totals_by_account on usage_totals (account, half_hour)`.execute(database);
  await sql`create index usage_totals_by_key on usage_totals (key_id, half_hour)`.execute(database);
  await sql`create table usage_days (like usage_totals including indexes)`.execute(database);
  await sql`alter table usage_days rename column half_hour to day`.execute(database);
}
