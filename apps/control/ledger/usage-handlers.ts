/** The operations on usage: the log of generations, and sums over time. */
import { type Expression, type RawBuilder, type SqlBool, sql } from "kysely";
import type { AnswerOf, InputOf } from "#api/operation.ts";
import { type topMeasures, unitKinds, usageDimensions, type usageOperations } from "#api/usage.ts";
import { usageLabels } from "#api/vocabulary.ts";
import { unitsOf } from "#ledger/money.ts";
import { isPartial, unitPriceNames, wholeOf } from "#ledger/prices.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import {
  attemptsOfRunMax,
  csvRecordsMax,
  csvRowsMax,
  filteredDaysMax,
  filterValuesMax,
  sumRowsMax,
} from "../bounds.ts";
import {
  countedAs,
  dimensionNames,
  dimensions,
  type LabelKind,
  type Measure,
  measureNames,
  type UsageRow,
} from "./columns.ts";
import { csvOf } from "./csv.ts";
import { isStored } from "./pseudonyms.ts";

type Filters = Pick<
  InputOf<(typeof usageOperations)["sumUsage"]>["query"],
  "from" | "to" | (typeof usageDimensions)[number]
>;
type SumQuery = InputOf<(typeof usageOperations)["exportUsage"]>["query"];
type TopQuery = Pick<InputOf<(typeof usageOperations)["sumUsage"]>["query"], "top" | "topBy">;

/** The columns of the dimensions in the tables of totals. */
const columns = {
  account: "account",
  key: "key_id",
  model: "model",
  group: "group_name",
  upstream: "upstream",
  user: "value",
  session: "value",
  tag: "value",
} as const satisfies Record<(typeof usageDimensions)[number], string>;
type UsageDimension = keyof typeof columns;

const dayMs = 86_400_000;
const halfHourMs = 1_800_000;

type RecordQuery = InputOf<(typeof usageOperations)["exportRecords"]>["query"];

export interface UsageHandlerOptions {
  /** The currency of all amounts. */
  currency(): string;
  /** Set where records have hashes in place of users and sessions: a filter may have the name. */
  pseudonymOf?: ((name: string) => string) | undefined;
}

export const usageHandlers = (options: UsageHandlerOptions): Handlers<typeof usageOperations> => {
  const { currency, pseudonymOf } = options;
  const storedOf = (name: string) => (pseudonymOf === undefined || isStored(name) ? name : pseudonymOf(name));
  const withHashes = <Query extends Filters>(query: Query): Query => ({
    ...query,
    ...(query.user !== undefined && { user: storedOf(query.user) }),
    ...(query.session !== undefined && { session: storedOf(query.session) }),
  });
  return {
    async listUsage({ query }, context) {
      const { rows, names, nextCursor } = await recordsOf(withHashes(query), context, query);
      return { body: { items: rows.map((row) => recordOf(row, names, context.actor.isOperator)), nextCursor } };
    },

    async exportRecords({ query }, context) {
      const { rows, names, nextCursor } = await recordsOf(withHashes(query), context, { limit: csvRecordsMax });
      if (nextCursor !== null)
        throw new Fault(
          "invalid",
          `There are more than ${csvRecordsMax} records; choose a shorter period or a filter.`,
        );
      const accountNames = await accountNamesOf(
        rows.map(({ account }) => account),
        context,
      );
      const records = rows.map((row) => recordOf(row, names, context.actor.isOperator));
      return {
        body: csvOf(
          records.map((record) => csvRecordOf(record, accountNames, currency())),
          recordNames,
        ),
        filename: fileNameOf("records", query, context),
      };
    },

    async getUsage({ params: { id } }, { database, scope, actor }) {
      const row = await database
        .selectFrom("usage")
        .selectAll()
        .select(hasContent)
        .where(within("account", scope))
        .where((where) => where.or([isNamed("generation_id", id), where("upstream_request_id", "=", id)]))
        .orderBy("received_at", "desc")
        .limit(1)
        .executeTakeFirst();
      if (row === undefined) throw notFound("usage record", id);
      return { body: recordOf(row, await keyNamesOf([row.key_id], { database, scope }), actor.isOperator) };
    },

    async sumUsage({ query }, context) {
      return { body: await sumsOf(withHashes(query), context) };
    },

    async exportUsage({ query }, context) {
      const { rows, keyNames } = await sumsOf(withHashes(query), context, csvRowsMax);
      const by = groupedBy(query.by);
      const names = by.flatMap((name) => (name === "key" || name === "account" ? [name, `${name}Name`] : [name]));
      const accounts = by.includes("account") ? rows.map(({ group }) => group.account ?? "") : [];
      const accountNames = await accountNamesOf(accounts, context);
      const timeIn = localTimeIn(query.timeZone ?? "UTC");
      return {
        body: csvOf(
          rows.map(({ time, group, isOthers: _, ...sums }) => ({
            time: time && timeIn(time),
            ...group,
            ...(group.key !== undefined && { keyName: keyNames[group.key] }),
            ...(group.account !== undefined && { accountName: accountNames.get(group.account) }),
            ...sums,
            isCostPartial: String(sums.isCostPartial),
            isUpstreamCostPartial: String(sums.isUpstreamCostPartial),
            currency: currency(),
          })),
          ["time", ...names, ...sumNames, "currency"],
        ),
        filename: fileNameOf("usage", query, context),
      };
    },
  };
};

/** Such as `usage-2026-11-01-to-2026-11-30.csv`: the first and the last day in its time zone. */
function fileNameOf(name: string, query: Filters & { timeZone?: string }, { now }: Context): string {
  const { start, end } = spanOf(query, now);
  // Days in Swedish are those of ISO 8601.
  const { format } = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeZone: query.timeZone ?? "UTC" });
  return `${name}-${format(start)}-to-${format(Math.max(start.getTime(), end.getTime() - 1))}.csv`;
}

/**
 * Writes a time with the offset of the time zone, such as `2026-11-29T00:00:00+01:00`, so that the
 * day of a row is in its text. UTC stays as it is.
 */
function localTimeIn(timeZone: string): (time: string) => string {
  if (timeZone === "UTC") return (time) => time;
  const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone });
  const zone = new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset" });
  return (time) => {
    const at = new Date(time);
    const name = zone.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value ?? "";
    return `${local.format(at).replace(" ", "T")}${name.replace("GMT", "") || "+00:00"}`;
  };
}

/** A page of the log, with the names of its keys. */
async function recordsOf(
  query: RecordQuery,
  { database, scope, now }: Context,
  page: { limit?: number; cursor?: string },
) {
  const { outcome, errorCode } = query;
  let listed = database
    .selectFrom("usage")
    .selectAll()
    .select(hasContent)
    .where(within("account", scope))
    .where(timesOf(query, now))
    .where(filterOf(query, dimensions.model))
    .where(labelFilterOf(query));
  if (query.model !== undefined || query.group !== undefined || query.upstream !== undefined) {
    const days = await daysWith(query, { database, scope, now });
    if (days.length === 0) return { rows: [], names: new Map<string, string>(), nextCursor: null };
    listed = listed.where(withinDays(days));
  }
  if (outcome !== undefined) listed = listed.where("outcome", "in", valuesOf(outcome, "outcome"));
  if (errorCode !== undefined) listed = listed.where("error_code", "in", valuesOf(errorCode, "errorCode"));
  // The index of what is not complete is small, and errors are rare.
  if (errorCode !== undefined || (outcome !== undefined && !valuesOf(outcome, "outcome").includes("complete")))
    listed = listed.where(sql<boolean>`outcome <> 'complete'`);
  const { rows, nextCursor } = await readPage(listed, page, ["received_at", "generation_id"]);
  const names = await keyNamesOf(
    rows.map((row) => row.key_id),
    { database, scope },
  );
  return { rows, names, nextCursor };
}

/** The columns of an export of the log. */
const recordNames = [
  ...["time", "requestId", "account", "accountName", "key", "keyName", "group", "model", "modelAnswered", "upstream"],
  ...["target", "operation", "outcome", "status", "errorCode", "inputTokens", "cacheReadTokens", "cacheWriteTokens"],
  ...["outputTokens", "reasoningTokens", "images", "cost", "upstreamCost", "cacheSaving", "currency", "serviceTier"],
  ...["isCostPartial", "isEstimated", "firstContentMs", "durationMs", "user", "session", "tags"],
];

function csvRecordOf(
  record: ReturnType<typeof recordOf>,
  accountNames: ReadonlyMap<string, string>,
  currency: string,
): Parameters<typeof csvOf>[0][number] {
  const {
    tokens,
    isCostPartial,
    isEstimated,
    tags,
    isStreamed: _,
    units: _units,
    price: _price,
    callLog: _log,
    hasContent: _content,
    ...fields
  } = record;
  return {
    ...fields,
    time: fields.receivedAt,
    accountName: accountNames.get(fields.account),
    inputTokens: tokens.input,
    cacheReadTokens: tokens.cacheRead,
    cacheWriteTokens: tokens.cacheWrite,
    outputTokens: tokens.output,
    reasoningTokens: tokens.reasoning,
    isCostPartial: String(isCostPartial),
    isEstimated: String(isEstimated),
    tags: tags.join(" "),
    currency,
  };
}

/**
 * The days that have records of this filter, by their totals, newest first: no index of the log
 * knows models, groups or upstreams.
 */
async function daysWith(
  query: Filters,
  { database, scope, now }: Pick<Context, "database" | "scope" | "now">,
): Promise<Date[]> {
  const { start, end } = spanOf(query, now);
  const { rows } = await sql<{ day: Date }>`
    select day from usage_days
    where day >= ${new Date(floorTo(dayMs, start.getTime()))} and day < ${end}
      and ${within("account", scope)} and ${filterOf(query, "model")}
    group by day having sum(requests) > 0 order by day desc`.execute(database);
  return rows.map(({ day }) => day);
}

/**
 * Records of other days are not looked for. Where there are many days, the oldest ones are one
 * span.
 */
function withinDays(days: readonly Date[]): Expression<SqlBool> {
  const spans = days.slice(0, filteredDaysMax).map((day) => ({ from: day, to: new Date(day.getTime() + dayMs) }));
  const [last, oldest] = [spans.at(-1), days.at(-1)];
  if (last !== undefined && oldest !== undefined) last.from = oldest;
  const each = spans.map(({ from, to }) => sql<SqlBool>`(received_at >= ${from} and received_at < ${to})`);
  return sql<SqlBool>`(${sql.join(each, sql` or `)})`;
}

/** Whether the content of a row of `usage` is stored. */
const hasContent =
  sql<boolean>`exists (select from content where content.generation_id = usage.generation_id and content.account = usage.account)`.as(
    "has_content",
  );

/** SQL for the generation or the request with this id. `column` is one of ours. */
export const isNamed = (column: string, id: string): Expression<SqlBool> =>
  // A generation has the id of its request, with another prefix; a request that was refused earlier
  // has its own.
  sql<SqlBool>`${sql.ref(column)} in (${id}, ${id.replace(/^req_/, "gen_")})`;

/** The answer's names of the sums, in its order. */
const sumNames = [
  "requests",
  "refused",
  "failed",
  "inputTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "outputTokens",
  "reasoningTokens",
  "audioInputTokens",
  "audioOutputTokens",
  "images",
  "cost",
  "isCostPartial",
  "upstreamCost",
  "isUpstreamCostPartial",
  "margin",
  "cacheSaving",
  "firstContentMs",
  "durationMs",
] as const;

type SumRow = { step: Date | null; is_others: boolean } & Partial<Record<UsageDimension, string | null>> &
  Record<Measure, bigint>;

/**
 * Decides which groups are the largest. The upstreams' cost is not among them: callers could read
 * it from the order.
 */
const sizes = {
  cost: "cost",
  requests: "requests",
  refused: "refused",
  failed: "failed",
  errors: "refused + failed",
  tokens: "input_tokens + output_tokens",
  inputTokens: "input_tokens",
  cachedInputTokens: "cached_input_tokens",
  outputTokens: "output_tokens",
  reasoningTokens: "reasoning_tokens",
  images: "images",
} as const satisfies Record<(typeof topMeasures)[number], string>;

async function sumsOf(
  query: SumQuery & TopQuery,
  context: Context,
  rowsMax: number = sumRowsMax,
): Promise<AnswerOf<(typeof usageOperations)["sumUsage"]>> {
  const { database, scope, actor, now } = context;
  const { interval = "day", timeZone = "UTC" } = query;
  const by = groupedBy(query.by);
  const step = stepOf(interval, timeZone);
  const names = by.map((dimension) => sql`${sql.ref(columns[dimension])} as ${sql.id(dimension)}`);
  const summed = sql.raw(measureNames.map((name) => `sum(${name})::bigint as ${name}`).join(", "));
  const steps = sql`
    select ${sql.join([sql`${step} as step`, ...names])}, ${summed}
    from ${totalsOf(query, { scope, now })} totals
    group by ${placesOf(1, by.length + 1)} ${labelIn(query) === undefined ? sql`` : sql`having sum(requests) <> 0`}`;
  const { rows } = await sql<SumRow>`
    with steps as (${steps})
    ${query.top === undefined || by.length === 0 ? sql`select *, false as is_others from steps` : largestOf(by, query)}
    order by step, is_others${sql.raw(by.map((name) => `, "${name}"`).join(""))}
    limit ${rowsMax + 1}`
    .execute(database)
    .catch((error: Error & { code?: string }) => {
      // invalid_parameter_value: https://www.postgresql.org/docs/current/errcodes-appendix.html
      if (error.code === "22023") throw unknownTimeZone(timeZone);
      throw error;
    });
  if (rows.length > rowsMax)
    throw new Fault(
      "invalid",
      `The answer has more than ${rowsMax} rows; choose a longer interval, fewer dimensions or a filter.`,
    );
  // A record with two tags is in two rows.
  const { user: _user, session: _session, ...ofAll } = query;
  const whole =
    by.includes("tag") && query.tag === undefined ? { ...ofAll, by: "", interval: "none" as const } : undefined;
  return {
    total: whole === undefined ? sumOf(totalOf(rows), actor.isOperator) : (await sumsOf(whole, context, rowsMax)).total,
    rows: rows.map((row) => ({
      time: row.step?.toISOString() ?? null,
      group: row.is_others ? {} : Object.fromEntries(by.map((dimension) => [dimension, row[dimension] ?? ""])),
      isOthers: row.is_others,
      ...sumOf(row, actor.isOperator),
    })),
    keyNames: by.includes("key")
      ? Object.fromEntries(
          await keyNamesOf(
            rows.map(({ key }) => key ?? ""),
            { database, scope },
          ),
        )
      : {},
  };
}

/** The numbers of result columns, for `group by`. */
const placesOf = (first: number, last: number): RawBuilder<unknown> =>
  sql.raw(Array.from({ length: last - first + 1 }, (_, index) => String(first + index)).join(", "));

/** The largest groups of `steps`, and all others as one. */
function largestOf(by: readonly UsageDimension[], { top, topBy = "cost" }: TopQuery): RawBuilder<unknown> {
  const list = (of: (name: UsageDimension) => string, separator = ", ") => sql.raw(by.map(of).join(separator));
  return sql`, largest as (
      select ${list((name) => `"${name}"`)}, true as is_largest from steps
      group by ${placesOf(1, by.length)}
      order by ${sql.raw(`sum(${sizes[topBy]})`)} desc, ${placesOf(1, by.length)} limit ${top}
    )
    select step, ${list((name) => `largest."${name}"`)}, is_largest is null as is_others,
      ${sql.raw(measureNames.map((name) => `sum(${name})::bigint as ${name}`).join(", "))}
    from steps left join largest on ${list((name) => `largest."${name}" = steps."${name}"`, " and ")}
    group by ${placesOf(1, by.length + 2)}`;
}

export const keyNamesOf = (ids: readonly string[], context: NameContext) => namesOf("keys", ids, context);
const accountNamesOf = (ids: readonly string[], context: NameContext) => namesOf("accounts", ids, context);

type NameContext = Pick<Context, "database" | "scope">;

/** The names by id, of those that the caller may see. */
async function namesOf(
  table: "keys" | "accounts",
  ids: readonly string[],
  { database, scope }: NameContext,
): Promise<Map<string, string>> {
  const distinct = [...new Set(ids)];
  if (distinct.length === 0) return new Map();
  const rows = await database
    .selectFrom(table)
    .select(["id", "name"])
    .where(within(table === "keys" ? "account" : "id", scope))
    .where(sql<boolean>`id = any(${distinct}::text[])`)
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/**
 * The rows to sum, with `half_hour`. A half hour counts as a whole. Totals do not know error codes:
 * those sums are made of records. Whole days come from the totals by day, where neither the step
 * nor the zone splits them.
 */
function totalsOf(query: SumQuery, { scope, now }: Pick<Context, "scope" | "now">): RawBuilder<unknown> {
  const { interval = "day", timeZone = "UTC" } = query;
  const { start, end } = spanOf(query, now);
  const to = end.getTime();
  const from = floorTo(halfHourMs, start.getTime());
  if (query.errorCode !== undefined && usageLabels.some((name) => groupedBy(query.by).includes(name)))
    throw new Fault("invalid", `Sums with \`errorCode\` cannot be grouped by ${usageLabels.join(", ")}.`, {
      field: "by",
    });
  if (query.errorCode !== undefined)
    return sql`(
      select ${sql.raw(countedAs)} from usage
      where received_at >= ${new Date(from)} and received_at < ${new Date(to)} and outcome <> 'complete'
        and error_code = any(${valuesOf(query.errorCode, "errorCode")}::text[])
        and ${within("account", scope)} and ${filterOf(query, dimensions.model)} and ${labelFilterOf(query)}
    )`;
  const condition = sql`${within("account", scope)} and ${filterOf(query, "model")}`;
  const label = labelIn(query);
  const between = (time: "half_hour" | "day", start: number, end: number): RawBuilder<unknown> => {
    const [usage, labels] = time === "day" ? ["usage_days", "label_days"] : ["usage_totals", "label_totals"];
    const counted = (table: string, value: RawBuilder<unknown>, sign = "") => sql`
      select ${sql.ref(time)} as half_hour, ${sql.raw([...dimensionNames, ...measureNames.map((name) => `${sign}${name} as ${name}`)].join(", "))}, ${value} as value
      from ${sql.table(table)}
      where ${sql.ref(time)} >= ${new Date(start)} and ${sql.ref(time)} < ${new Date(end)} and ${condition}`;
    if (label === undefined) return counted(usage, sql`''`);
    const ofKind = sql`and kind = ${sql.lit(label.kind)}`;
    if (label.value !== undefined) return sql`${counted(labels, sql`value`)} ${ofKind} and value = ${label.value}`;
    const named = sql`${counted(labels, sql`value`)} ${ofKind}`;
    if (label.kind === "tag") return named;
    // The records without one are all but those with one.
    return sql`${named} union all ${counted(usage, sql`''`)} union all ${counted(labels, sql`''`, "-")} ${ofKind}`;
  };
  const [firstDay, lastDay] = [floorTo(dayMs, from + dayMs - 1), floorTo(dayMs, to)];
  const splitsDays = interval === "half-hour" || interval === "hour" || (interval !== "none" && timeZone !== "UTC");
  if (splitsDays || firstDay >= lastDay) return sql`(${between("half_hour", from, to)})`;
  return sql`(${between("half_hour", from, firstDay)} union all ${between("day", firstDay, lastDay)} union all ${between("half_hour", lastDay, to)})`;
}

/** The label by which sums are grouped or filtered. Throws a Fault for two of them. */
function labelIn(query: SumQuery): { kind: LabelKind; value: string | undefined } | undefined {
  const by = groupedBy(query.by);
  const [kind, ...others] = usageLabels.filter((label) => query[label] !== undefined || by.includes(label));
  if (others.length > 0)
    throw new Fault("invalid", `Sums know only one of ${usageLabels.join(", ")} at a time.`, {
      field: others[0] ?? "",
    });
  return kind && { kind, value: query[kind] };
}

/** SQL for the labels of records. */
function labelFilterOf({ user, session, tag }: Filters): Expression<SqlBool> {
  const conditions = [
    ...(user === undefined ? [] : [sql`user_name = ${user}`]),
    ...(session === undefined ? [] : [sql`session = ${session}`]),
    ...(tag === undefined ? [] : [sql`tags @> ${JSON.stringify([tag])}::jsonb`]),
  ];
  return conditions.length === 0 ? sql<SqlBool>`true` : sql<SqlBool>`(${sql.join(conditions, sql` and `)})`;
}

const floorTo = (step: number, ms: number): number => ms - (ms % step);

function groupedBy(by: string | undefined): UsageDimension[] {
  const chosen = by === undefined || by === "" ? [] : by.split(",");
  const unknown = chosen.find((name) => !(usageDimensions as readonly string[]).includes(name));
  if (unknown !== undefined || chosen.length > 2 || new Set(chosen).size < chosen.length)
    throw new Fault("invalid", `\`by\` must be up to two different names of ${usageDimensions.join(", ")}.`, {
      field: "by",
    });
  return chosen as UsageDimension[];
}

function stepOf(interval: NonNullable<SumQuery["interval"]>, timeZone: string): RawBuilder<unknown> {
  try {
    new Intl.DateTimeFormat("en", { timeZone });
  } catch {
    throw unknownTimeZone(timeZone);
  }
  if (interval === "none") return sql`null::timestamptz`;
  if (interval === "half-hour") return sql`half_hour`;
  return sql`date_trunc(${sql.lit(interval)}, half_hour, ${sql.lit(timeZone)})`;
}

const unknownTimeZone = (timeZone: string) =>
  new Fault("invalid", `There is no time zone ${JSON.stringify(timeZone)}; use a name such as Europe/Berlin.`, {
    field: "timeZone",
  });

/** The times of a query: by default the 30 days before `to`. */
function spanOf({ from, to }: Filters, now: Date): { start: Date; end: Date } {
  const end = to === undefined ? now : new Date(to);
  const start = from === undefined ? new Date(end.getTime() - 30 * dayMs) : new Date(from);
  if (to !== undefined && start > end) throw new Fault("invalid", "`from` must not be after `to`.", { field: "from" });
  return { start, end };
}

/** SQL for that span. */
function timesOf(query: Filters, now: Date): Expression<SqlBool> {
  const { start, end } = spanOf(query, now);
  return sql<SqlBool>`(received_at >= ${start} and received_at < ${end})`;
}

/** `model` is SQL of ours. */
function filterOf(query: Filters, model: string): Expression<SqlBool> {
  const conditions: RawBuilder<unknown>[] = [];
  for (const dimension of usageDimensions) {
    const text = query[dimension];
    if (text === undefined || usageLabels.some((label) => label === dimension)) continue;
    const column = dimension === "model" ? sql.raw(model) : sql.ref(columns[dimension]);
    conditions.push(sql`${column} = any(${valuesOf(text, dimension)}::text[])`);
  }
  return conditions.length === 0 ? sql<SqlBool>`true` : sql<SqlBool>`(${sql.join(conditions, sql` and `)})`;
}

function valuesOf(text: string, field: string): string[] {
  const values = text.split(",");
  if (values.length > filterValuesMax)
    throw new Fault("invalid", `\`${field}\` has more than ${filterValuesMax} values.`, { field });
  return values;
}

function totalOf(rows: readonly SumRow[]): Record<Measure, bigint> {
  const total = Object.fromEntries(measureNames.map((name) => [name, 0n])) as Record<Measure, bigint>;
  for (const row of rows) for (const name of measureNames) total[name] += row[name];
  return total;
}

/** Only operators see what upstreams cost. */
function sumOf(row: Record<Measure, bigint>, isOperator: boolean) {
  const isUpstreamCostKnown = row.upstream_cost !== 0n || row.margin_cost !== 0n;
  const mean = (sum: bigint, count: bigint) => (count === 0n ? null : Math.round(Number(sum) / Number(count)));
  return {
    requests: Number(row.requests),
    refused: Number(row.refused),
    failed: Number(row.failed),
    inputTokens: Number(row.input_tokens),
    cachedInputTokens: Number(row.cached_input_tokens),
    cacheWriteTokens: Number(row.cache_write_tokens),
    outputTokens: Number(row.output_tokens),
    reasoningTokens: Number(row.reasoning_tokens),
    audioInputTokens: Number(row.audio_input_tokens),
    audioOutputTokens: Number(row.audio_output_tokens),
    images: Number(row.images),
    cost: unitsOf(row.cost),
    isCostPartial: row.unpriced > 0n,
    isUpstreamCostPartial: isOperator && isUpstreamCostKnown && row.cost !== row.margin_cost,
    upstreamCost: isOperator && isUpstreamCostKnown ? unitsOf(row.upstream_cost) : null,
    margin: isOperator && isUpstreamCostKnown ? unitsOf(row.margin_cost - row.upstream_cost) : null,
    cacheSaving: row.cache_saving === 0n ? null : unitsOf(row.cache_saving),
    firstContentMs: mean(row.first_content_ms, row.first_contents),
    durationMs: mean(row.duration_ms, row.requests),
  } satisfies Record<(typeof sumNames)[number], unknown>;
}

const numberOrNull = (value: bigint | null): number | null => (value === null ? null : Number(value));

export function recordOf(
  row: UsageRow & { has_content: boolean },
  keyNames: ReadonlyMap<string, string>,
  isOperator: boolean,
) {
  return {
    id: row.generation_id,
    requestId: row.request_id,
    receivedAt: row.received_at.toISOString(),
    account: row.account,
    key: row.key_id,
    keyName: keyNames.get(row.key_id) ?? null,
    group: row.group_name,
    model: row.model,
    modelAnswered: row.model_answered,
    upstream: row.upstream,
    target: row.target,
    operation: row.operation,
    dialect: row.dialect,
    upstreamDialect: row.upstream_dialect,
    queue: row.queue,
    isStreamed: row.is_streamed,
    status: row.status,
    outcome: row.outcome as "complete",
    errorCode: row.error_code,
    tokens: {
      input: Number(row.input_tokens),
      cacheRead: Number(row.cached_input_tokens),
      cacheWrite: Number(row.cache_write_tokens),
      audioInput: Number(row.audio_input_tokens),
      output: Number(row.output_tokens),
      reasoning: Number(row.reasoning_tokens),
      audioOutput: Number(row.audio_output_tokens),
    },
    units: unitsIn(row),
    images: Number(row.images),
    imageSize: row.image_size,
    imageQuality: row.image_quality,
    serviceTier: row.service_tier,
    isEstimated: row.is_estimated,
    cost: unitsOf(row.cost),
    isCostPartial: isPartial(row.other_units as UsageRecord["otherUnits"]),
    upstreamCost: isOperator && row.upstream_cost !== null ? unitsOf(row.upstream_cost) : null,
    cacheSaving: row.cache_saving === null ? null : unitsOf(row.cache_saving),
    price: priceOf(row),
    queuedMs: numberOrNull(row.queued_ms),
    dispatchedMs: numberOrNull(row.dispatched_ms),
    boundMs: numberOrNull(row.bound_ms),
    firstContentMs: numberOrNull(row.first_content_ms),
    durationMs: Number(row.duration_ms),
    attempts: row.attempt % attemptsOfRunMax,
    calls: row.calls,
    callLog: callLogOf(row, isOperator),
    chunks: Number(row.chunks),
    bytes: Number(row.bytes),
    bodyBytes: Number(row.body_bytes),
    upstreamRequestId: row.upstream_request_id,
    user: row.user_name,
    session: row.session,
    tags: row.tags as string[],
    traceId: row.trace_id,
    hasContent: row.has_content,
  };
}

/**
 * A status may tell what is wrong with the operator's account at the upstream, so only operators
 * see it.
 */
function callLogOf({ call_log }: UsageRow, isOperator: boolean) {
  if (call_log === null) return null;
  return (call_log as NonNullable<UsageRecord["callLog"]>).map(
    ([upstream, target, startedMs, durationMs, status, outcome]) => ({
      ...{ upstream, target, startedMs, durationMs },
      status: isOperator ? status : null,
      outcome,
    }),
  );
}

/** The API's names of the counts that contain units. */
const wholes = {
  inputTokens: "input",
  cachedInputTokens: "cacheRead",
  cacheWriteTokens: "cacheWrite",
  outputTokens: "output",
} as const;

/** Kinds that this version does not know, written by a newer one, are left out. */
function unitsIn({ other_units: units }: UsageRow) {
  return ((units ?? []) as NonNullable<UsageRecord["otherUnits"]>).flatMap(([name, count, price]) => {
    const kind = unitKinds.find((unitKind) => unitKind === name);
    if (kind === undefined) return [];
    const whole = wholeOf(kind);
    return [
      {
        kind,
        count,
        partOf: whole === undefined ? null : wholes[whole],
        unitPrice: price === null ? null : unitsOf(BigInt(price)),
      },
    ];
  });
}

/** Why it cost what it cost. */
function priceOf({ unit_prices, price_version, group_ppm }: UsageRow) {
  if (unit_prices === null) return null;
  const values = unit_prices as number[];
  const at = (name: (typeof unitPriceNames)[number]) => values[unitPriceNames.indexOf(name)] ?? 0;
  const units = (name: (typeof unitPriceNames)[number]) => unitsOf(BigInt(at(name)));
  return {
    version: price_version,
    groupRatio: Number(group_ppm) / 1_000_000,
    serviceRatio: at("servicePpm") / 1_000_000,
    inputPerMillion: units("input"),
    cacheReadPerMillion: units("cacheRead"),
    cacheWritePerMillion: units("cacheWrite"),
    outputPerMillion: units("output"),
    reasoningPerMillion: units("reasoning"),
    audioInputPerMillion: units("audioInput"),
    audioOutputPerMillion: units("audioOutput"),
    perRequest: units("request"),
    perImage: units("image"),
  };
}
