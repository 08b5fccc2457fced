/** The service tiers of every dialect, translated to every other one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { isFlexIn } from "#dialects/neutral/service-tier.ts";
import { wireOf } from "./support.ts";

const bodies: Record<ConversationDialect, object> = {
  "openai-chat": { model: "m", messages: [{ role: "user", content: "hi" }] },
  "openai-responses": { model: "m", input: "hi" },
  "anthropic-messages": { model: "m", max_tokens: 5, messages: [{ role: "user", content: "hi" }] },
  gemini: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};
const openai = ["openai-chat", "openai-responses"] as const;

/** Callers' values, and those that upstreams of OpenAI's dialects and Gemini's get. */
const rows: [dialects: readonly ConversationDialect[], value: unknown, openai?: string, gemini?: string][] = [
  [openai, "default", "default", "standard"],
  [openai, "flex", "flex", "flex"],
  [openai, "priority", "priority", "priority"],
  [openai, "auto"],
  [openai, "scale"],
  [openai, "fast"],
  [openai, "ultrafast"],
  [openai, null],
  [["anthropic-messages"], "standard_only", "default", "standard"],
  [["anthropic-messages"], "auto"],
  [["gemini"], "standard", "default", "standard"],
  [["gemini"], "FLEX", "flex", "flex"],
  [["gemini"], "SERVICE_TIER_PRIORITY", "priority", "priority"],
  [["gemini"], "unspecified"],
];

for (const [dialects, value, openaiTier, geminiTier] of rows)
  for (const dialect of dialects)
    test(`${dialect}: the service tier ${value}`, () => {
      const field = dialect === "gemini" ? "serviceTier" : "service_tier";
      const request = codecs[dialect].decodeRequest({
        body: { ...bodies[dialect], [field]: value },
        headers: {},
        framing: "whole",
      });
      for (const upstream of openai) assert.equal(wireOf(request, upstream).service_tier, openaiTier, upstream);
      assert.equal(wireOf(request, "gemini").serviceTier, geminiTier);
      const anthropic = wireOf(request, "anthropic-messages");
      assert.equal("service_tier" in anthropic || "serviceTier" in anthropic, false, "Anthropic sells none");
    });

const refusals: [dialects: readonly ConversationDialect[], value: string, message: RegExp][] = [
  [openai, "turbo", /^Invalid value: 'turbo'\. Supported values are: 'auto', 'default', 'flex', and 'priority'\.$/],
  [["anthropic-messages"], "turbo", /^service_tier: Input should be 'auto' or 'standard_only'$/],
  [["gemini"], "constructor", /^Invalid value at 'service_tier' \(TYPE_ENUM\), "constructor"$/],
];

for (const [dialects, value, message] of refusals)
  for (const dialect of dialects)
    test(`${dialect}: the unknown service tier ${value} is refused in the dialect's words`, () => {
      const param = dialect === "gemini" ? "serviceTier" : "service_tier";
      const body = { ...bodies[dialect], [param]: value };
      assert.throws(() => codecs[dialect].decodeRequest({ body, headers: {}, framing: "whole" }), { message, param });
    });

test("a request for flex is known by its body, and no text makes one", () => {
  for (const body of ['{"service_tier":"flex"}', '{"a":1, "service_tier": "flex"}', '{"serviceTier":"flex"}'])
    assert.equal(isFlexIn(Buffer.from(body)), true, body);
  for (const body of [{ service_tier: "default" }, { input: '"service_tier":"flex"' }, {}])
    assert.equal(isFlexIn(Buffer.from(JSON.stringify(body))), false);
});
