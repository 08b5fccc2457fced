import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { plausible } from "#dialects/usage.ts";
import { priced } from "#ledger/bill.ts";
import { unitsOf } from "#ledger/money.ts";
import {
  costOf,
  isFree,
  type Priced,
  type Prices,
  type UnitPrices,
  unitPriceNames,
  unitPricesOf,
} from "#ledger/prices.ts";
import { billedFields } from "#ledger/record-fields.ts";

const plain: Prices = { inputPerMillion: 1, outputPerMillion: 2, images: [], tiers: [], serviceTiers: {} };
const used: Priced = {
  inputTokens: 100,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 10,
  reasoningTokens: 0,
};

/** A price with up to nine decimals, as a number of the catalogue. */
const price = fc.integer({ min: 0, max: 1_000_000_000_000 }).map((nano) => nano / 1_000_000_000);
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const tokens = fc.nat({ max: 100_000_000 });
const tier = fc.constantFrom("default", "flex", "priority");
const size = fc.constantFrom("1024x1024", "1024x1536");
const quality = fc.constantFrom("low", "high");

const tokenPrices = {
  cachedInputPerMillion: maybe(price),
  cacheWritePerMillion: maybe(price),
  audioInputPerMillion: maybe(price),
  audioOutputPerMillion: maybe(price),
  reasoningPerMillion: maybe(price),
};
/** Without the members that are undefined, as in a file. */
const without = <Value extends object>(value: Value) =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
const ratio = fc.integer({ min: 0, max: 100_000_000 }).map((ppm) => ppm / 1_000_000);

const prices = fc
  .record({
    inputPerMillion: price,
    outputPerMillion: price,
    ...tokenPrices,
    perRequest: maybe(price),
    images: fc.array(fc.record({ size: maybe(size), quality: maybe(quality), price }).map(without), { maxLength: 4 }),
    tiers: fc.array(
      fc
        .record({
          aboveInputTokens: fc.integer({ min: 1, max: 200_000_000 }),
          inputPerMillion: maybe(price),
          outputPerMillion: maybe(price),
          ...tokenPrices,
        })
        .map(without),
      { maxLength: 3 },
    ),
    serviceTiers: fc.dictionary(tier, ratio, { maxKeys: 3 }),
  })
  .map((all) => without(all) as Prices);

const usage = fc
  .record({
    inputTokens: tokens,
    cachedInputTokens: tokens,
    cacheWriteTokens: tokens,
    outputTokens: tokens,
    reasoningTokens: tokens,
    audioInputTokens: tokens,
    audioOutputTokens: tokens,
    images: maybe(
      fc.record({ count: fc.nat({ max: 1_000 }), size: maybe(size), quality: maybe(quality) }).map(without),
    ),
    serviceTier: maybe(tier),
  })
  .map((all) => plausible(without(all) as Priced));

/**
 * A whole number of millionths of a nano-unit, ratios of parts per million apart: the cost before
 * it is rounded, times 10^18.
 */
function exactCostOf(unit: UnitPrices, amounts: Priced, groupPpm: number): bigint {
  const { audioInputTokens = 0, audioOutputTokens = 0 } = amounts;
  const input = amounts.inputTokens - amounts.cachedInputTokens - amounts.cacheWriteTokens - audioInputTokens;
  const output = amounts.outputTokens - amounts.reasoningTokens - audioOutputTokens;
  assert.ok(input >= 0 && output >= 0, "parts of a plausible usage do not overlap");
  const parts: [number, number][] = [
    [input, unit.input],
    [amounts.cachedInputTokens, unit.cacheRead],
    [amounts.cacheWriteTokens, unit.cacheWrite],
    [audioInputTokens, unit.audioInput],
    [output, unit.output],
    [amounts.reasoningTokens, unit.reasoning],
    [audioOutputTokens, unit.audioOutput],
    [1_000_000, unit.request],
    [(amounts.images?.count ?? 0) * 1_000_000, unit.image],
  ];
  const sum = parts.reduce((total, [count, each]) => total + BigInt(count) * BigInt(each), 0n);
  return sum * BigInt(unit.servicePpm) * BigInt(groupPpm);
}

test("a cost is exact, rounded half up once", () => {
  fc.assert(
    fc.property(prices, usage, fc.nat({ max: 1_000_000_000 }), (list, amounts, groupPpm) => {
      const unit = unitPricesOf(list, amounts);
      const cost = costOf(unit, amounts, groupPpm);
      const twiceOff = 2n * (cost * 10n ** 18n - exactCostOf(unit, amounts, groupPpm));
      assert.ok(twiceOff > -(10n ** 18n) && twiceOff <= 10n ** 18n, `${unitsOf(cost)} is not the nearest nano-unit`);
    }),
  );
});

test("the unit prices and the counts of a record give its cost again", () => {
  fc.assert(
    fc.property(prices, usage, ratio, (list, amounts, priceRatio) => {
      const groups = new Map([["default", { priceRatio }]]);
      const bill = priced({ groups, version: "v" }, "default", { id: "m", prices: list }, amounts);
      const record = billedFields(bill, undefined);
      const unit = Object.fromEntries(
        unitPriceNames.map((name, place) => [name, record.unitPrices?.[place]]),
      ) as Partial<UnitPrices> as UnitPrices;
      const { images, imageSize: _, imageQuality: __, serviceTier: ___, ...counts } = record;
      assert.equal(String(costOf(unit, { ...counts, images: { count: images } }, record.groupPpm)), record.cost);
    }),
  );
});

test("of the tiers that the input exceeds, the highest replaces what it names", () => {
  const list: Prices = {
    ...plain,
    cachedInputPerMillion: 0.1,
    tiers: [
      { aboveInputTokens: 200, inputPerMillion: 4 },
      { aboveInputTokens: 100, inputPerMillion: 3, outputPerMillion: 5 },
    ],
  };
  const at = (inputTokens: number) => {
    const { input, output, cacheRead, cacheWrite } = unitPricesOf(list, { ...used, inputTokens });
    return [input, output, cacheRead, cacheWrite].map((nano) => unitsOf(BigInt(nano)));
  };
  assert.deepEqual(at(100), ["1", "2", "0.1", "1"]);
  assert.deepEqual(at(101), ["3", "5", "0.1", "3"]);
  assert.deepEqual(at(201), ["4", "2", "0.1", "4"]);
});

test("the first price that matches an image applies, and replaces that of output tokens", () => {
  const list: Prices = {
    ...plain,
    images: [
      { size: "1024x1024", quality: "low", price: 0.01 },
      { quality: "high", price: 0.1 },
      { size: "1024x1024", price: 0.05 },
    ],
  };
  const of = (images: Priced["images"]) => {
    const { image, output, audioOutput } = unitPricesOf(list, { ...used, ...(images && { images }) });
    return [image, output, audioOutput].map((nano) => unitsOf(BigInt(nano)));
  };
  assert.deepEqual(of({ count: 1, size: "1024x1024", quality: "low" }), ["0.01", "0", "0"]);
  assert.deepEqual(of({ count: 1, quality: "high" }), ["0.1", "0", "0"]);
  assert.deepEqual(of({ count: 1, size: "1024x1024" }), ["0.05", "0", "0"]);
  assert.deepEqual(of({ count: 1 }), ["0", "2", "2"]);
  assert.deepEqual(of(undefined), ["0", "2", "2"]);
});

test("a service tier has its own factor, or none", () => {
  const list = { ...plain, serviceTiers: { flex: 0.5 } };
  const costWith = (serviceTier: string) => {
    const amounts = { ...used, serviceTier };
    return costOf(unitPricesOf(list, amounts), amounts, 1_000_000);
  };
  assert.deepEqual([costWith("flex"), costWith("default"), costWith("constructor")], [60_000n, 120_000n, 120_000n]);
});

test("a model is free if none of its prices is above zero, wherever it is written", () => {
  const none: Prices = {
    ...plain,
    inputPerMillion: 0,
    outputPerMillion: 0,
    perRequest: 0,
    images: [{ size: "any", price: 0 }],
    tiers: [{ aboveInputTokens: 1_000, inputPerMillion: 0 }],
    serviceTiers: { priority: 2 },
    periods: [{ from: "2026-01-01", ratio: 2, outputPerMillion: 0 }],
  };
  assert.equal(isFree(none), true);
  for (const more of [
    { outputPerMillion: 1 },
    { cachedInputPerMillion: 1 },
    { perWebSearch: 0.01 },
    { perAudioSecond: 0.006 },
    { images: [{ price: 0 }, { price: 0.04 }] },
    { tiers: [{ aboveInputTokens: 1_000, inputPerMillion: 1 }] },
    { periods: [{ from: "2026-01-01", perRequest: 1 }] },
  ])
    assert.equal(isFree({ ...none, ...more }), false, JSON.stringify(more));
});
