/**
 * The columns of the tables `usage` and `usage_totals`. The insertion and the queries are made from
 * these tables; a test compares them with the migrations.
 */
import type { usageLabels } from "#api/vocabulary.ts";
import { unitKinds } from "#dialects/usage.ts";
import { isPartial } from "#ledger/prices.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";

/** The fields of a usage record as columns, with their types in SQL. */
export const usageColumns = {
  generationId: ["generation_id", "text not null"],
  requestId: ["request_id", "text not null"],
  attempt: ["attempt", "int not null"],
  isOwner: ["is_owner", "boolean not null"],
  receivedAt: ["received_at", "timestamptz not null"],
  account: ["account", "text not null"],
  keyId: ["key_id", "text not null"],
  group: ["group_name", "text not null"],
  model: ["model", "text not null"],
  modelAnswered: ["model_answered", "text"],
  upstream: ["upstream", "text not null"],
  target: ["target", "text"],
  operation: ["operation", "text"],
  dialect: ["dialect", "text"],
  upstreamDialect: ["upstream_dialect", "text"],
  queue: ["queue", "text"],
  isStreamed: ["is_streamed", "boolean not null"],
  status: ["status", "int not null"],
  outcome: ["outcome", "text not null"],
  errorCode: ["error_code", "text"],
  inputTokens: ["input_tokens", "bigint not null"],
  cachedInputTokens: ["cached_input_tokens", "bigint not null"],
  cacheWriteTokens: ["cache_write_tokens", "bigint not null"],
  outputTokens: ["output_tokens", "bigint not null"],
  reasoningTokens: ["reasoning_tokens", "bigint not null"],
  audioInputTokens: ["audio_input_tokens", "bigint not null"],
  audioOutputTokens: ["audio_output_tokens", "bigint not null"],
  images: ["images", "bigint not null"],
  imageSize: ["image_size", "text"],
  imageQuality: ["image_quality", "text"],
  isEstimated: ["is_estimated", "boolean not null"],
  unitPrices: ["unit_prices", "jsonb"],
  priceVersion: ["price_version", "text"],
  serviceTier: ["service_tier", "text"],
  groupPpm: ["group_ppm", "bigint not null"],
  cost: ["cost", "bigint not null"],
  upstreamCost: ["upstream_cost", "bigint"],
  queuedMs: ["queued_ms", "bigint"],
  dispatchedMs: ["dispatched_ms", "bigint"],
  boundMs: ["bound_ms", "bigint"],
  firstContentMs: ["first_content_ms", "bigint"],
  durationMs: ["duration_ms", "bigint not null"],
  calls: ["calls", "int not null"],
  chunks: ["chunks", "bigint not null"],
  bytes: ["bytes", "bigint not null"],
  bodyBytes: ["body_bytes", "bigint not null"],
  upstreamRequestId: ["upstream_request_id", "text"],
  user: ["user_name", "text"],
  tags: ["tags", "jsonb not null"],
  traceId: ["trace_id", "text"],
  callLog: ["call_log", "jsonb"],
  otherUnits: ["other_units", "jsonb"],
  cacheSaving: ["cache_saving", "bigint"],
  batch: ["batch_id", "text"],
  session: ["session", "text"],
} as const satisfies Record<keyof UsageRecord, readonly [name: string, type: string]>;

type Column = (typeof usageColumns)[keyof UsageRecord];
type Bare<Type extends string> = Type extends `${infer Name} not null` ? Name : Type;
interface SqlTypes {
  text: string;
  int: number;
  bigint: bigint;
  boolean: boolean;
  timestamptz: Date;
  jsonb: unknown;
}
type Value<Type extends string> =
  | SqlTypes[Bare<Type> & keyof SqlTypes]
  | (Type extends `${string} not null` ? never : null);

/** A row of the table `usage`. */
export type UsageRow = { [Each in Column as Each[0]]: Value<Each[1]> };

/**
 * The dimensions of totals besides the half hour, each with its SQL for one record. An unknown
 * value is an empty text.
 */
export const dimensions = {
  account: "account",
  key_id: "key_id",
  model: "coalesce(model_answered, model)",
  group_name: "group_name",
  upstream: "upstream",
} as const;
export type Dimension = keyof typeof dimensions;
export const dimensionNames = Object.keys(dimensions) as Dimension[];

/** A number where that is exact. */
const moneyOf = (nano: string): number | bigint => (nano.length <= exactDigits ? Number(nano) : BigInt(nano));
const exactDigits = 15;

/**
 * `isPartial` of the units of a row of `usage`, in SQL. Without `strict` a filter looks at what is
 * in an array in place of the array.
 */
export const isPartialSql = `coalesce(jsonb_path_exists(other_units, 'strict $[*] ? (@[2] == null && (${Object.entries(
  unitKinds,
)
  .flatMap(([kind, whole]) => (whole === undefined ? [`@[0] == "${kind}"`] : []))
  .join(" || ")}))', '{}', true), false)`;

/**
 * The sums of `usage_totals`: what one record adds, in SQL and here. A test holds the two against
 * each other.
 */
const measures = {
  requests: ["1", () => 1],
  refused: ["(outcome = 'refused')::int", ({ outcome }) => Number(outcome === "refused")],
  failed: ["(outcome = 'failed')::int", ({ outcome }) => Number(outcome === "failed")],
  input_tokens: ["input_tokens", ({ inputTokens }) => inputTokens],
  cached_input_tokens: ["cached_input_tokens", ({ cachedInputTokens }) => cachedInputTokens],
  cache_write_tokens: ["cache_write_tokens", ({ cacheWriteTokens }) => cacheWriteTokens],
  output_tokens: ["output_tokens", ({ outputTokens }) => outputTokens],
  reasoning_tokens: ["reasoning_tokens", ({ reasoningTokens }) => reasoningTokens],
  audio_input_tokens: ["audio_input_tokens", ({ audioInputTokens }) => audioInputTokens],
  audio_output_tokens: ["audio_output_tokens", ({ audioOutputTokens }) => audioOutputTokens],
  images: ["images", ({ images }) => images],
  cost: ["cost", ({ cost }) => moneyOf(cost)],
  /** Costs of records whose upstream's prices are known, and what callers paid for them. */
  upstream_cost: ["coalesce(upstream_cost, 0)", ({ upstreamCost }) => moneyOf(upstreamCost ?? "0")],
  margin_cost: [
    "case when upstream_cost is null then 0 else cost end",
    ({ upstreamCost, cost }) => (upstreamCost === null ? 0 : moneyOf(cost)),
  ],
  /** Costs that leave something out. */
  unpriced: [`${isPartialSql}::int`, ({ otherUnits }) => Number(isPartial(otherUnits))],
  cache_saving: ["coalesce(cache_saving, 0)", ({ cacheSaving }) => moneyOf(cacheSaving ?? "0")],
  /** Times of answers with content. */
  first_contents: ["(first_content_ms is not null)::int", ({ firstContentMs }) => Number(firstContentMs !== null)],
  first_content_ms: ["coalesce(first_content_ms, 0)", ({ firstContentMs }) => firstContentMs ?? 0],
  duration_ms: ["duration_ms", ({ durationMs }) => durationMs],
} as const satisfies Record<string, readonly [sql: string, of: (record: UsageRecord) => number | bigint]>;
export type Measure = keyof typeof measures;
export const measureNames = Object.keys(measures) as Measure[];

/** One record's share of each of `measureNames`, exactly. */
export const measureFunctions: readonly ((record: UsageRecord) => number | bigint)[] = measureNames.map(
  (name) => measures[name][1],
);

/** The texts of `dimensionNames` for one record. */
export const dimensionsOf = ({ account, keyId, model, modelAnswered, group, upstream }: UsageRecord): string[] => [
  account ?? "",
  keyId,
  storableText(modelAnswered ?? model ?? ""),
  group,
  upstream ?? "",
];

/** Postgres has neither the character U+0000 nor half of a surrogate pair in its texts. */
export const storableText = (text: string): string =>
  text.includes("\0") || !text.isWellFormed() ? text.replaceAll("\0", "\ufffd").toWellFormed() : text;

/**
 * The labels of a record, which have totals of their own: SQL for a set of their kinds and texts,
 * and the same here. A record has one user and one session, and several tags.
 */
export type LabelKind = (typeof usageLabels)[number];
export const labelsSql = `
  select 'user' as kind, user_name as value where user_name <> ''
  union all select 'session', session where session <> ''
  union all select distinct 'tag', jsonb_array_elements_text(tags)`;

export function labelsOf({ user, session, tags }: UsageRecord): [kind: LabelKind, value: string][] {
  const labels: [kind: LabelKind, value: string][] = [...new Set(tags)].map((tag) => ["tag", storableText(tag)]);
  if (user !== null && user !== "") labels.push(["user", storableText(user)]);
  if (session !== null && session !== "") labels.push(["session", storableText(session)]);
  return labels;
}

const changeSql = (sign: "" | "-"): string =>
  [
    "date_bin('30 minutes', received_at, timestamptz '2000-01-01 00:00:00+00') as half_hour",
    ...dimensionNames.map((name) => `${dimensions[name]} as ${name}`),
    ...measureNames.map((name) => `${sign}(${measures[name][0]})::bigint as ${name}`),
  ].join(", ");

/** The SQL of what one record adds to the totals, in the columns of `usage_totals`. */
export const countedAs = changeSql("");
/** The same for a record that is replaced. */
export const discountedAs = changeSql("-");
