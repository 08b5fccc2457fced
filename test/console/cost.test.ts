/** The console's explanation of a cost gives the gateway's cost, to the last digit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { unitsOf } from "#ledger/money.ts";
import { costOf, unitPriceMax } from "#ledger/prices.ts";
import { costStepsOf, type Priced } from "../../apps/console/parts/cost.ts";
import { decimalOf, nanoOf } from "../../apps/console/parts/decimal.ts";

const noTokens = {
  input: 0,
  cacheRead: 0,
  cacheWrite: 0,
  audioInput: 0,
  output: 0,
  reasoning: 0,
  audioOutput: 0,
};

const prices = {
  version: "v1",
  groupRatio: 1,
  serviceRatio: 1,
  inputPerMillion: "0",
  cacheReadPerMillion: "0",
  cacheWritePerMillion: "0",
  outputPerMillion: "0",
  reasoningPerMillion: "0",
  audioInputPerMillion: "0",
  audioOutputPerMillion: "0",
  perRequest: "0",
  perImage: "0",
};

test("decimal texts and billionths", () => {
  for (const [text, nano] of [
    ["0", 0n],
    ["1.5", 1_500_000_000n],
    ["-0.000000001", -1n],
    ["123456789012.000000007", 123_456_789_012_000_000_007n],
  ] as const) {
    assert.equal(nanoOf(text), nano);
    assert.equal(decimalOf(nano), text);
  }
  assert.equal(decimalOf(25n, 15), "0.000000000000025");
});

test("a cost is explained line by line", () => {
  const steps = costStepsOf({
    tokens: { ...noTokens, input: 1_000, cacheRead: 300, output: 50 },
    images: 0,
    price: {
      ...prices,
      groupRatio: 1.1,
      inputPerMillion: "1.25",
      cacheReadPerMillion: "0.125",
      outputPerMillion: "10",
    },
  });
  assert.deepEqual(
    steps?.lines.map(({ kind, count, unitPrice, amount }) => [kind, count, unitPrice, amount]),
    [
      ["input", 700, "1.25", "0.000875"],
      ["cacheRead", 300, "0.125", "0.0000375"],
      ["output", 50, "10", "0.0005"],
    ],
  );
  assert.equal(steps?.sum, "0.0014125");
  assert.equal(steps?.product, "0.00155375");
  assert.equal(steps?.cost, "0.00155375");
});

test("what was not billed has no cost to explain", () => {
  assert.equal(costStepsOf({ tokens: { ...noTokens, input: 5 }, images: 0, price: null }), undefined);
});

test("the explained cost is always the gateway's", () => {
  const count = fc.nat(3_000_000);
  const price = fc.nat(unitPriceMax);
  const ppm = fc.nat(100_000_000);
  const used = fc.record({
    ...{ plain: count, cacheRead: count, cacheWrite: count, audioInput: count },
    ...{ plainOutput: count, reasoning: count, audioOutput: count, images: fc.nat(10) },
  });
  const unit = fc.record({
    ...{ input: price, cacheRead: price, cacheWrite: price, audioInput: price },
    ...{ output: price, reasoning: price, audioOutput: price, request: price, image: price, servicePpm: ppm },
  });
  fc.assert(
    fc.property(used, unit, ppm, (uses, prices, groupPpm) => {
      const { plain, cacheRead, cacheWrite, audioInput, plainOutput, reasoning, audioOutput, images } = uses;
      const input = plain + cacheRead + cacheWrite + audioInput;
      const output = plainOutput + reasoning + audioOutput;
      const text = (nano: number) => unitsOf(BigInt(nano));
      const record: Priced = {
        tokens: { input, cacheRead, cacheWrite, audioInput, output, reasoning, audioOutput },
        images,
        price: {
          version: null,
          groupRatio: groupPpm / 1_000_000,
          serviceRatio: prices.servicePpm / 1_000_000,
          inputPerMillion: text(prices.input),
          cacheReadPerMillion: text(prices.cacheRead),
          cacheWritePerMillion: text(prices.cacheWrite),
          outputPerMillion: text(prices.output),
          reasoningPerMillion: text(prices.reasoning),
          audioInputPerMillion: text(prices.audioInput),
          audioOutputPerMillion: text(prices.audioOutput),
          perRequest: text(prices.request),
          perImage: text(prices.image),
        },
      };
      const cost = costOf(
        prices,
        {
          inputTokens: input,
          cachedInputTokens: cacheRead,
          cacheWriteTokens: cacheWrite,
          outputTokens: output,
          reasoningTokens: reasoning,
          audioInputTokens: audioInput,
          audioOutputTokens: audioOutput,
          images: { count: images },
        },
        groupPpm,
      );
      assert.equal(costStepsOf(record)?.cost, unitsOf(cost));
    }),
  );
});
