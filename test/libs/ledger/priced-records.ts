/**
 * Random prices, groups and usages, the records that a gateway writes of them, and what they cost
 * by a calculation of its own: fractions of whole numbers.
 */
import fc from "fast-check";
import { priced } from "#ledger/bill.ts";
import { nanoPerUnit, ppmPerUnit } from "#ledger/money.ts";
import { costOf, type Priced, type Prices, type UnitPrices, unitPriceNames } from "#ledger/prices.ts";
import { billedFields } from "#ledger/record-fields.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";

/**
 * Whole nano-units for a million tokens, for a request or for an image: up to nine decimals, as in
 * a catalogue.
 */
const nano = fc.oneof(
  fc.constantFrom(0, 1, 37_500_000, 1_250_000_000, 75_000_000_000),
  fc.integer({ min: 0, max: 1_000_000_000_000 }),
);
const ppm = fc.oneof(fc.constantFrom(0, 1, 500_000, 1_000_000), fc.integer({ min: 0, max: 3_000_000 }));
const maybe = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined });

const tokenPriceNames = [
  "inputPerMillion",
  "outputPerMillion",
  "cachedInputPerMillion",
  "cacheWritePerMillion",
  "audioInputPerMillion",
  "audioOutputPerMillion",
  "reasoningPerMillion",
] as const;
type TokenPrices = Partial<Record<(typeof tokenPriceNames)[number], number>>;

const tokenPrices: fc.Arbitrary<TokenPrices> = fc
  .record(Object.fromEntries(tokenPriceNames.map((name) => [name, maybe(nano)])))
  .map(defined);

/** Every number is whole: nano-units or parts per million. */
const wholePrices = fc.record({
  base: fc.tuple(tokenPrices, nano, nano).map(([more, inputPerMillion, outputPerMillion]) => ({
    ...more,
    inputPerMillion,
    outputPerMillion,
  })),
  perRequest: maybe(nano),
  images: fc.array(
    fc.record({ size: maybe(fc.constantFrom("s", "l")), quality: maybe(fc.constantFrom("low", "high")), price: nano }),
    { maxLength: 3 },
  ),
  tiers: fc.array(fc.record({ above: fc.integer({ min: 1, max: 400_000 }), prices: tokenPrices }), { maxLength: 3 }),
  flex: maybe(ppm),
});
type WholePrices = typeof wholePrices extends fc.Arbitrary<infer Value> ? Value : never;

const tokens = fc.oneof(fc.nat(20), fc.nat(500_000), fc.nat(100_000_000));
const usages: fc.Arbitrary<Priced> = fc
  .record({
    input: tokens,
    output: tokens,
    shares: fc.tuple(fc.nat(100), fc.nat(100), fc.nat(100), fc.nat(100), fc.nat(100)),
    images: maybe(
      fc.record({
        count: fc.nat(10),
        size: fc.constantFrom("s", "l"),
        quality: fc.constantFrom("low", "high"),
      }),
    ),
    isFlex: fc.boolean(),
  })
  .map(({ input, output, shares: [read, write, audio, reasoning, audioOutput], images, isFlex }) => {
    const part = (whole: number, share: number) => Math.floor((whole * share) / 300);
    return {
      inputTokens: input,
      cachedInputTokens: part(input, read),
      cacheWriteTokens: part(input, write),
      audioInputTokens: part(input, audio),
      outputTokens: output,
      reasoningTokens: part(output, reasoning),
      audioOutputTokens: part(output, audioOutput),
      ...(images && { images }),
      ...(isFlex && { serviceTier: "flex" }),
    };
  });

/** A price list with one group, a usage, and its cost by the calculation of this file. */
export interface PricedUsage {
  readonly prices: Prices;
  readonly used: Priced;
  readonly groupPpm: number;
  readonly cost: bigint;
}

export const pricedUsages: fc.Arbitrary<PricedUsage> = fc
  .record({ whole: wholePrices, used: usages, groupPpm: ppm })
  .map(({ whole, used, groupPpm }) => ({
    prices: pricesOf(whole),
    used,
    groupPpm,
    cost: exactCost(whole, used, groupPpm),
  }));

const units = (nanoUnits: number) => nanoUnits / nanoPerUnit;
const inUnits = (prices: TokenPrices) =>
  Object.fromEntries(Object.entries(prices).map(([name, value]) => [name, units(value)]));

/** As the catalogue has them: decimal numbers. */
function pricesOf({ base, perRequest, images, tiers, flex }: WholePrices): Prices {
  return {
    ...(inUnits(base) as { inputPerMillion: number; outputPerMillion: number }),
    ...(perRequest !== undefined && { perRequest: units(perRequest) }),
    images: images.map((image) => ({ ...defined(image), price: units(image.price) })),
    tiers: tiers.map(({ above, prices }) => ({ aboveInputTokens: above, ...inUnits(prices) })),
    serviceTiers: flex === undefined ? {} : { flex: flex / ppmPerUnit },
  };
}

/** Rounded once, half up. */
function exactCost(
  { base, perRequest = 0, images, tiers, flex = ppmPerUnit }: WholePrices,
  used: Priced,
  groupPpm: number,
): bigint {
  const reached = tiers.filter(({ above }) => used.inputTokens > above).sort((one, other) => one.above - other.above);
  const highest = reached.at(-1)?.above;
  const tier = tiers.filter(({ above }) => above === highest).at(-1)?.prices ?? {};
  const price: TokenPrices = { ...base, ...tier };
  const image =
    used.images &&
    images.find(
      ({ size, quality }) =>
        (size ?? used.images?.size) === used.images?.size && (quality ?? used.images?.quality) === used.images?.quality,
    );
  const input = price.inputPerMillion ?? 0;
  const output = image === undefined ? (price.outputPerMillion ?? 0) : 0;
  const { audioInputTokens = 0, audioOutputTokens = 0 } = used;
  const parts: [count: number, price: number][] = [
    [used.inputTokens - used.cachedInputTokens - used.cacheWriteTokens - audioInputTokens, input],
    [used.cachedInputTokens, price.cachedInputPerMillion ?? input],
    [used.cacheWriteTokens, price.cacheWritePerMillion ?? input],
    [audioInputTokens, price.audioInputPerMillion ?? input],
    [used.outputTokens - used.reasoningTokens - audioOutputTokens, output],
    [used.reasoningTokens, price.reasoningPerMillion ?? output],
    [audioOutputTokens, price.audioOutputPerMillion ?? output],
    [1_000_000, perRequest],
    [(used.images?.count ?? 0) * 1_000_000, image?.price ?? 0],
  ];
  const sum = parts.reduce((sum, [count, each]) => sum + BigInt(count) * BigInt(each), 0n);
  const [amount, divisor] = [
    sum * BigInt(used.serviceTier === "flex" ? flex : ppmPerUnit) * BigInt(groupPpm),
    10n ** 18n,
  ];
  return (2n * amount + divisor) / (2n * divisor);
}

/** The fields of a record about money, as the gateway makes them. */
export function moneyOf({ prices, used, groupPpm }: PricedUsage): Pick<UsageRecord, "cost"> & Partial<UsageRecord> {
  const priceList = { groups: new Map([["group", { priceRatio: groupPpm / ppmPerUnit }]]), version: "v1" };
  const bill = priced(priceList, "group", { id: "m", prices }, used);
  return {
    ...billedFields(bill, undefined),
    audioInputTokens: used.audioInputTokens ?? 0,
    audioOutputTokens: used.audioOutputTokens ?? 0,
    images: used.images?.count ?? 0,
    imageSize: used.images?.size ?? null,
    imageQuality: used.images?.quality ?? null,
    serviceTier: used.serviceTier ?? null,
  };
}

/** A record's cost by nothing but its own fields. */
export function recalculated(record: UsageRecord): bigint {
  const unitPrices = Object.fromEntries(
    unitPriceNames.map((name, index) => [name, record.unitPrices?.[index]]),
  ) as Partial<UnitPrices> as UnitPrices;
  return costOf(unitPrices, { ...record, images: { count: record.images }, serviceTier: "" }, record.groupPpm);
}

function defined<Value extends object>(value: Value): { [Name in keyof Value]: Exclude<Value[Name], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}
