import assert from "node:assert/strict";
import { test } from "node:test";
import { plainUsageOf } from "#dialects/usage.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { billOf } from "../../../apps/ingress/generation/bill.ts";
import type { Generation } from "../../../apps/ingress/generation/generation.ts";
import { partOf } from "../../support/part-of.ts";

const prices = (inputPerMillion: number) => ({
  inputPerMillion,
  outputPerMillion: inputPerMillion * 2,
  images: [],
  tiers: [],
  serviceTiers: {},
});
interface PricedModel {
  id: string;
  prices: object;
  contextWindow?: number;
  outputTokensMax?: number;
}
const catalogueOf = (...models: PricedModel[]) => ({
  modelWith: (id: string) => models.find((model) => model.id === id),
  groups: new Map([["half", { priceRatio: 0.5 }]]),
  version: "v1",
});
const catalogue = catalogueOf(
  { id: "m", prices: prices(1), contextWindow: 8_000, outputTokensMax: 900 },
  { id: "fallback", prices: prices(5) },
);

/** Asks for 25 tokens of input and at most 500 of output. */
const generationFields = {
  catalogue,
  caller: { group: "half" },
  state: "running" as Generation["state"]["kind"],
  operation: "answer" as Generation["request"]["endpoint"]["operation"],
  framing: "sse" as const,
  model: { id: "m", capabilities: [] as string[] },
  modelAnswered: "m",
  bodyBytes: 100,
  outputTokensMax: 500,
  choices: 1,
  attachedTokens: 0,
  usage: null,
  progress: undefined,
};
/** A generation of such a request. */
function generationOf({
  catalogue: prices,
  caller,
  state,
  operation,
  framing,
  model,
  ...rest
}: typeof generationFields): Generation {
  const request = { http: { caller }, endpoint: { operation }, framing, demand: rest };
  const admitted = { catalogue: prices, model };
  return partOf<Generation>({ ...rest, state: { kind: state }, request, admitted });
}

const begun = { model: "fallback", outputTokens: 0, reasoningTokens: 0 };
const thinks = { id: "m", capabilities: ["reasoning"] };
const nothing = "nothing";
const reserved = "25 in, 500 out, m";

const cases: [what: string, generation: object, outcome: GenerationOutcome, expected: string][] = [
  [
    "complete, by its upstream's count",
    { usage: plainUsageOf(7, 8), modelAnswered: "fallback" },
    "complete",
    "7 in, 8 out, fallback",
  ],
  [
    "complete, uncounted, by what was produced",
    { progress: { ...begun, outputTokens: 90 } },
    "complete",
    "25 in, 90 out, fallback",
  ],
  [
    "complete, counted absurdly, by what its model can use",
    { usage: plainUsageOf(9e15, 9e15) },
    "complete",
    "8000 in, 900 out, m",
  ],
  ["complete, counted as nothing, by what was reserved", { usage: plainUsageOf(0, 0) }, "complete", reserved],
  ["complete, its input not counted", { usage: plainUsageOf(0, 8) }, "complete", "25 in, 8 out, m"],
  [
    "left, counted absurdly",
    { progress: { ...begun, model: "m", outputTokens: 4e9, reported: plainUsageOf(9e15, 1) } },
    "left",
    "8000 in, 900 out, m",
  ],
  ["complete and whole, uncounted, by what was reserved", { framing: "whole" }, "complete", reserved],
  ["failed", { progress: { ...begun, outputTokens: 90 } }, "upstream_failed", nothing],
  ["failed, paid and uncounted", { paidAnswer: { model: "fallback" } }, "upstream_failed", "25 in, 500 out, fallback"],
  [
    "failed, paid and counted",
    { paidAnswer: { model: "fallback", usage: plainUsageOf(7, 8) } },
    "upstream_failed",
    "7 in, 8 out, fallback",
  ],
  [
    "failed, paid and counted as nothing, by what was reserved",
    { paidAnswer: { model: "m", usage: plainUsageOf(0, 0) } },
    "upstream_failed",
    reserved,
  ],
  ["left while it waited", { state: "dispatched" }, "left", nothing],
  ["left before its upstream answered", {}, "left", nothing],
  ["left before anything was produced", { progress: begun }, "left", "25 in, 0 out, fallback"],
  ["left before anything was seen of a model that thinks", { progress: begun, model: thinks }, "left", reserved],
  [
    "left in the middle",
    { progress: { ...begun, outputTokens: 90 }, model: thinks },
    "left",
    "25 in, 90 out, fallback",
  ],
  [
    "left with its input counted",
    { progress: { ...begun, outputTokens: 90, reported: plainUsageOf(7, 1) } },
    "left",
    "7 in, 90 out, fallback",
  ],
  [
    "left while it waited to be resumed",
    { state: "dispatched", progress: { ...begun, outputTokens: 90 } },
    "left",
    "25 in, 90 out, fallback",
  ],
  ["whole, left while it was made", { framing: "whole" }, "left", reserved],
  [
    "whole, left while its upstream streamed it",
    { framing: "whole", progress: { ...begun, outputTokens: 90 } },
    "left",
    "25 in, 90 out, fallback",
  ],
  ["a picture, left while it was made", { operation: "image-generation" }, "left", reserved],
  ["revoked in the middle", { progress: { ...begun, outputTokens: 90 } }, "invalid_key", "25 in, 90 out, fallback"],
  ["stopped in the middle", { progress: { ...begun, outputTokens: 90 } }, "stopped", "25 in, 90 out, fallback"],
  ["failed in the middle", { progress: { ...begun, outputTokens: 90 } }, "upstream_failed", nothing],
  ["a session, left while nothing was answered", { operation: "realtime", progress: begun }, "complete", nothing],
  ...(["complete", "left", "upstream_failed", "worker_lost", "unavailable", "budget_exhausted"] as const).map(
    (outcome): (typeof cases)[number] => [
      `a session that ends in the middle of an answer: ${outcome}`,
      {
        operation: "realtime",
        progress: { ...begun, outputTokens: 90, reported: plainUsageOf(7, 50), unreported: plainUsageOf(60, 30) },
      },
      outcome,
      "67 in, 90 out, fallback",
    ],
  ),
];

test("bill: a session that runs, by its upstream's reports alone", () => {
  const progress = { ...begun, outputTokens: 90, reported: plainUsageOf(7, 50), unreported: plainUsageOf(60, 30) };
  const bill = billOf(
    generationOf(Object.assign({ ...generationFields }, { operation: "realtime", progress })),
    undefined,
  );
  assert.deepEqual([bill?.usage.inputTokens, bill?.usage.outputTokens], [7, 50]);
});

test("bill: a transcript without a report, by the seconds of its recording where they have a price", () => {
  for (const [own, expected] of [
    [{ perAudioSecond: 0.006 }, 30_000_000n],
    // 250 tokens of audio in a form of 25.
    [{ inputPerMillion: 1 }, 137_500n],
  ] as const) {
    const model = { id: "m", capabilities: [], prices: { ...prices(0), ...own } };
    const recording = { operation: "transcription", attachedTokens: 250, audioSeconds: 10, mediaTokens: 40 };
    const generation = {
      ...generationFields,
      ...recording,
      framing: "whole",
      model,
      catalogue: catalogueOf(model),
    };
    assert.equal(billOf(generationOf(Object.assign({ ...generationFields }, generation)), "complete")?.cost, expected);
  }
});

for (const [what, generation, outcome, expected] of cases)
  test(`bill: ${what}`, () => {
    const bill = billOf(generationOf(Object.assign({ ...generationFields }, generation)), outcome);
    assert.equal(
      bill === undefined ? nothing : `${bill.usage.inputTokens} in, ${bill.usage.outputTokens} out, ${bill.model}`,
      expected,
    );
    if (bill === undefined) return;
    const { inputTokens, outputTokens } = bill.usage;
    const [input, output] = bill.model === "fallback" ? [5_000, 10_000] : [1_000, 2_000];
    // The group pays half.
    assert.equal(bill.cost, BigInt((inputTokens * input + outputTokens * output) / 2));
    assert.deepEqual([bill.groupPpm, bill.priceVersion], [500_000, "v1"]);
  });
