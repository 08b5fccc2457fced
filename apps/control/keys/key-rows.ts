/**
 * Keys in their three forms: rows of the database, answers of the API, and the records that
 * ingresses follow.
 */
import { type Selectable, type SqlBool, sql } from "kysely";
import { type KeyRecord, stateOf } from "#access/record.ts";
import type { keyOperations } from "#api/keys.ts";
import type { AnswerOf } from "#api/operation.ts";
import { unitsOf } from "#ledger/money.ts";
import { type Scope, within } from "../api/actor.ts";
import type { Database } from "../database/database.ts";
import type { KeyRow } from "../database/tables.ts";

/** A key with what its account decides. */
export type FullRow = Selectable<KeyRow> & {
  account_disabled_at: Date | null;
  account_groups: string[] | null;
  account_content_key: string | null;
  account_version: number;
};

type ApiKey = AnswerOf<(typeof keyOperations)["getKey"]>;

/** Spending by the ledger, in nano-units. */
interface Spend {
  readonly today: bigint;
  readonly month: bigint;
  readonly total: bigint;
  /** It leaves out units without a price. */
  readonly isPartial: boolean;
}

export interface KeyUse extends Spend {
  readonly lastUsedAt: Date | null;
}

/** The keys of a scope, each with its account. */
export const keysWithin = (database: Database, scope: Scope) =>
  database
    .selectFrom("keys")
    .innerJoin("accounts", "accounts.id", "keys.account")
    .selectAll("keys")
    .select([
      "accounts.disabled_at as account_disabled_at",
      "accounts.groups as account_groups",
      "accounts.content_key as account_content_key",
      "accounts.version as account_version",
    ])
    .where(within("keys.account", scope));

/** The record for ingresses. The version grows with every change of the key or its account. */
export function recordOf(row: FullRow): KeyRecord {
  const { models, origins, limits, priority, addresses, expires_at, revoked_at, account_disabled_at } = row;
  return {
    id: row.id,
    name: row.name,
    group: row.group_name,
    hint: row.hint,
    createdAt: row.created_at.getTime(),
    ...(expires_at && { expiresAt: expires_at.getTime() }),
    ...(revoked_at && { revokedAt: revoked_at.getTime() }),
    ...(models && { models }),
    account: row.account,
    ...(origins && { origins }),
    ...(limits && { limits }),
    ...(priority && { priority }),
    ...(addresses && { addresses }),
    ...(row.tags.length > 0 && { tags: row.tags }),
    ...(row.account_content_key && { contentKey: row.account_content_key }),
    ...(account_disabled_at && { disabledAt: account_disabled_at.getTime() }),
    version: row.version + row.account_version,
  };
}

/** A key without what it used, which is also its form in the audit log. */
export const describedOf = (row: FullRow, now: Date) => ({
  id: row.id,
  account: row.account,
  hint: row.hint,
  state: stateOf(recordOf(row), now.getTime()),
  name: row.name,
  group: row.group_name,
  models: row.models,
  expiresAt: isoOf(row.expires_at),
  limits: row.limits,
  addresses: row.addresses,
  origins: row.origins,
  priority: row.priority,
  tags: row.tags,
  createdAt: row.created_at.toISOString(),
  revokedAt: isoOf(row.revoked_at),
  replacedBy: row.replaced_by,
});

export const apiKeyOf = (row: FullRow, now: Date, use = unused): ApiKey => ({
  ...describedOf(row, now),
  lastUsedAt: isoOf(use.lastUsedAt),
  spend: spendOf(use),
});

const unspent: Spend = { today: 0n, month: 0n, total: 0n, isPartial: false };
const unused: KeyUse = { ...unspent, lastUsedAt: null };

const spendOf = ({ today, month, total, isPartial }: Spend): ApiKey["spend"] => ({
  ...{ today: unitsOf(today), month: unitsOf(month), total: unitsOf(total) },
  isPartial,
});

/** SQL of the spending in a table of totals whose times are in this column. */
const spendIn = (time: "half_hour" | "day", now: Date) => {
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth()));
  const today = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()));
  const since = (start: Date) => sql`coalesce(sum(cost) filter (where ${sql.ref(time)} >= ${start}), 0)::bigint`;
  return sql`coalesce(sum(cost), 0)::bigint as total, ${since(month)} as month, ${since(today)} as today,
    coalesce(sum(unpriced), 0) > 0 as "isPartial"`;
};

const isoOf = (time: Date | null): string | null => time?.toISOString() ?? null;

/** The usage of these keys. Keys without usage are missing. */
export async function usesOf(database: Database, ids: readonly string[], now: Date): Promise<Map<string, KeyUse>> {
  const { rows } = await sql<Spend & { id: string; last_used_at: Date }>`
    with sums as (
      select key_id, max(half_hour) as last, ${spendIn("half_hour", now)}
      from usage_totals where key_id = any(${[...ids]}::text[]) group by key_id
    )
    select key_id as id, today, month, total, "isPartial", coalesce((
      select max(received_at) from usage
      where usage.key_id = sums.key_id and received_at >= sums.last and received_at < sums.last + interval '30 minutes'
    ), last) as last_used_at from sums`.execute(database);
  return new Map(rows.map(({ id, last_used_at: lastUsedAt, ...sums }) => [id, { ...sums, lastUsedAt }]));
}

/** The spending of all keys of an account, in the currency's units. */
export async function accountSpendOf(database: Database, account: string, now: Date): Promise<ApiKey["spend"]> {
  const { rows } = await sql<Spend>`
    select ${spendIn("day", now)} from usage_days where account = ${account}`.execute(database);
  return spendOf(rows[0] ?? unspent);
}

/** SQL for keys in this state at this time. */
export function isInState(state: "live" | "expired" | "revoked", now: Date) {
  const isExpired = sql<SqlBool>`keys.expires_at is not null and keys.expires_at <= ${now}`;
  if (state === "revoked") return sql<SqlBool>`keys.revoked_at is not null`;
  if (state === "expired")
    return sql<SqlBool>`keys.revoked_at is null and accounts.disabled_at is null and ${isExpired}`;
  return sql<SqlBool>`keys.revoked_at is null and accounts.disabled_at is null and not (${isExpired})`;
}
