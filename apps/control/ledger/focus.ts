/**
 * Rows of FOCUS 1.2 for an hour of usage: one for each key, model, upstream, price and kind of
 * unit: https://focus.finops.org/focus-specification/v1-2/. Their costs add up to those of the
 * records, to the last nano-unit.
 */
import { sql } from "kysely";
import { decimalOf, unitsOf } from "#ledger/money.ts";
import { unitPriceNames } from "#ledger/prices.ts";
import type { Database } from "../database/database.ts";

export interface FocusContext {
  hour: Date;
  currency: string;
  /** The name of the installation, which issues the bill. */
  issuer: string;
}

export interface KeyOfUsage {
  account: string;
  key_id: string;
}

const hourMs = 3_600_000;
const million = 1_000_000n;

/** The kinds of units with a price: the name of the price, the unit, and SQL for their number. */
const meters = {
  "Input tokens": [
    "input",
    "Tokens",
    "greatest(0, input_tokens - cached_input_tokens - cache_write_tokens - audio_input_tokens)",
  ],
  "Input tokens from cache": ["cacheRead", "Tokens", "cached_input_tokens"],
  "Input tokens to cache": ["cacheWrite", "Tokens", "cache_write_tokens"],
  "Input tokens of audio": ["audioInput", "Tokens", "audio_input_tokens"],
  "Output tokens": ["output", "Tokens", "greatest(0, output_tokens - reasoning_tokens - audio_output_tokens)"],
  "Reasoning tokens": ["reasoning", "Tokens", "reasoning_tokens"],
  "Output tokens of audio": ["audioOutput", "Tokens", "audio_output_tokens"],
  Requests: ["request", "Requests", "1"],
  Images: ["image", "Images", "images"],
} as const satisfies Record<string, readonly [price: (typeof unitPriceNames)[number], unit: string, sql: string]>;
type Meter = keyof typeof meters;
const meterNames = Object.keys(meters) as Meter[];
/** The meter of searches and the like, and of charges that are no multiple of a price. */
const otherMeter = "Other units";

export const focusColumns = [
  ...["BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency"],
  ...["BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription"],
  ...["ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit"],
  ...["ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice"],
  ...["PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ResourceId"],
  ...["ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter"],
  ...["SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType", "Tags"],
];
type FocusRow = Record<string, string | null>;

type Group = Record<`m${number}`, bigint> & {
  account: string;
  key_id: string;
  group_name: string;
  model: string;
  upstream: string;
  unit_prices: number[] | null;
  group_ppm: bigint;
  requests: bigint;
  cost: bigint;
};

/** The rows of these keys. */
export async function focusRowsOf(
  database: Database,
  keys: readonly KeyOfUsage[],
  context: FocusContext,
): Promise<FocusRow[]> {
  const { hour } = context;
  const counts = meterNames.map((name, index) => `sum(${meters[name][2]})::bigint as m${index}`);
  const { rows } = await sql<Group>`
    select account, key_id, group_name, coalesce(model_answered, model) as model, upstream, unit_prices, group_ppm,
      count(*) as requests, sum(cost)::bigint as cost, ${sql.raw(counts.join(", "))}
    from usage
    where received_at >= ${hour} and received_at < ${new Date(hour.getTime() + hourMs)} and (unit_prices is not null or cost <> 0)
      and (account, key_id) in (select account, key_id from json_to_recordset(${JSON.stringify(keys)}::json) as k(account text, key_id text))
    group by 1, 2, 3, 4, 5, 6, 7 order by 1, 2, 3, 4, 5, 6, 7`.execute(database);
  const [keyRows, accounts] = [
    await database
      .selectFrom("keys")
      .select(["id", "name", "tags"])
      .where(
        "id",
        "in",
        keys.map(({ key_id }) => key_id),
      )
      .execute(),
    await database
      .selectFrom("accounts")
      .select(["id", "name"])
      .where(
        "id",
        "in",
        keys.map(({ account }) => account),
      )
      .execute(),
  ];
  const keysById = new Map(keyRows.map((row) => [row.id, row]));
  const accountNames = new Map(accounts.map(({ id, name }) => [id, name]));
  return rows.flatMap((group) => {
    const key = keysById.get(group.key_id);
    const common = {
      ...commonOf(group, context),
      BillingAccountName: accountNames.get(group.account) ?? null,
      ResourceName: key?.name ?? null,
      Tags: JSON.stringify(Object.fromEntries((key?.tags ?? []).map((tag) => [tag, "true"]))),
    };
    return chargesOf(group).map((charge) => ({ ...common, ...rowOf(charge, group) }));
  });
}

interface Charge {
  meter: Meter | typeof otherMeter;
  unit: string;
  quantity: bigint;
  /** In nano-units. */
  cost: bigint;
  /** Decimal numbers for one unit, without and with the ratio of the group. */
  listPrice: string;
  price: string;
  listCost: string;
  exactCost: string;
}

/** Divides the cost of a group by kinds of units, and leaves nothing out. */
function chargesOf(group: Group): Charge[] {
  const { group_ppm: ratio, cost } = group;
  const prices = group.unit_prices ?? [];
  const service = BigInt(prices[unitPriceNames.indexOf("servicePpm")] ?? Number(million));
  const charges: Charge[] = [];
  for (const [index, meter] of meterNames.entries()) {
    const [name, unit] = meters[meter];
    const price = BigInt(prices[unitPriceNames.indexOf(name)] ?? 0);
    const quantity = group[`m${index}`] ?? 0n;
    if (quantity === 0n || price === 0n) continue;
    // Prices of tokens are per million of them.
    const decimals = unit === "Tokens" ? 15 : 9;
    const list = price * service;
    charges.push({
      meter,
      unit,
      quantity,
      cost: (quantity * list * ratio) / (million * million * (unit === "Tokens" ? million : 1n)),
      listPrice: decimalOf(list, decimals + 6),
      price: decimalOf(list * ratio, decimals + 12),
      listCost: decimalOf(quantity * list, decimals + 6),
      exactCost: decimalOf(quantity * list * ratio, decimals + 12),
    });
  }
  const rest = cost - charges.reduce((sum, charge) => sum + charge.cost, 0n);
  const [largest] = [...charges].sort((left, right) => Number(right.cost - left.cost));
  // The cost of each record is rounded, and that of each charge here is cut.
  const isRounding = (rest < 0n ? -rest : rest) <= group.requests + BigInt(charges.length);
  if (isRounding && largest !== undefined && largest.cost + rest >= 0n) {
    largest.cost += rest;
    return charges;
  }
  const other = (amount: bigint): Charge => {
    const text = unitsOf(amount);
    const prices = { listPrice: text, price: text, listCost: text, exactCost: text };
    return { meter: otherMeter, unit: "Units", quantity: 1n, cost: amount, ...prices };
  };
  if (rest > 0n) return [...charges, other(rest)];
  // Prices of units have replaced some of those above.
  return cost === 0n ? [] : [other(cost)];
}

function commonOf({ account, key_id, group_name, model, upstream }: Group, { hour, currency, issuer }: FocusContext) {
  const month = (offset: number) => new Date(Date.UTC(hour.getUTCFullYear(), hour.getUTCMonth() + offset));
  return {
    BillingAccountId: account,
    BillingAccountType: "Account",
    BillingCurrency: currency,
    BillingPeriodStart: timeOf(month(0)),
    BillingPeriodEnd: timeOf(month(1)),
    ChargeCategory: "Usage",
    ChargeClass: null,
    ChargeFrequency: "Usage-Based",
    ChargePeriodStart: timeOf(hour),
    ChargePeriodEnd: timeOf(new Date(hour.getTime() + hourMs)),
    InvoiceIssuerName: issuer,
    PricingCategory: "Standard",
    ProviderName: upstream || issuer,
    PublisherName: upstream || issuer,
    ResourceId: key_id,
    ResourceType: "API key",
    ServiceCategory: "AI and Machine Learning",
    ServiceSubcategory: "Generative AI",
    ServiceName: "Model API",
    SkuId: model,
    SubAccountId: group_name,
    SubAccountName: group_name,
    SubAccountType: "Group",
  };
}

const rowOf = (
  { meter, unit, quantity, cost, listPrice, price, listCost, exactCost }: Charge,
  { model }: Group,
): FocusRow => ({
  BilledCost: unitsOf(cost),
  EffectiveCost: unitsOf(cost),
  ChargeDescription: `${meter} of ${model}`,
  ConsumedQuantity: String(quantity),
  ConsumedUnit: unit,
  ContractedCost: exactCost,
  ContractedUnitPrice: price,
  ListCost: listCost,
  ListUnitPrice: listPrice,
  PricingQuantity: String(quantity),
  PricingUnit: unit,
  SkuMeter: meter,
  SkuPriceId: `${model} ${meter} ${price}`,
});

/** As FOCUS has times: without fractions. */
const timeOf = (date: Date): string => date.toISOString().replace(".000Z", "Z");
