import assert from "node:assert/strict";
import { test } from "node:test";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";
import { effortAmong } from "#dialects/neutral/reasoning.ts";

test("a model's name decides its traits at every upstream, and a newer model of a family has those of the newest", () => {
  const sampling = (model: string) => modelTraitsOf("anthropic-messages", model).sampling;
  for (const name of [
    "claude-sonnet-4-5-20250929",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-sonnet-4-5@20250929",
    "anthropic/claude-sonnet-4.5",
    "Claude-Sonnet-4-5",
  ])
    assert.equal(sampling(name), "one", name);
  assert.deepEqual(["claude-sonnet-4-20250514", "claude-opus-4-7", "claude-next", "mistral"].map(sampling), [
    "both",
    "none",
    "none",
    "both",
  ]);
  assert.equal(modelTraitsOf("gemini", "models/gemini-2.5-flash-lite-001").thinkingTokensMin, 512);
  assert.equal(modelTraitsOf("openai-chat", "gemini-2.5-flash-lite").thinking, "effort");
});

test("traits in the catalogue replace the defaults, and the others stay", () => {
  const traits = modelTraitsOf("gemini", "gemini-2.5-pro", { thinkingTokensMax: 1_000, efforts: ["low"] });
  assert.deepEqual([traits.thinking, traits.thinkingTokensMin, traits.thinkingTokensMax], ["budget", 128, 1_000]);
  assert.deepEqual(traits.efforts, ["low"]);
});

test("an effort that a model does not accept becomes the nearest accepted one", () => {
  assert.equal(effortAmong("medium", ["low", "high"]), "high");
  assert.equal(effortAmong("xhigh", ["low", "medium", "high", "max"]), "high");
  assert.equal(effortAmong("none", ["minimal", "low"]), "minimal");
  assert.equal(effortAmong("max", ["low"]), "low");
  assert.equal(effortAmong("low", ["low", "high"]), "low");
});
