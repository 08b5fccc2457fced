import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { thinkingIn } from "#dialects/openai-chat/thinking-fields.ts";
import { targetOf } from "../../../support/target.ts";

const google = (thinking_config: object) => ({ extra_body: { google: { thinking_config } } });

/** Requests of public clients, their amount of thinking, and whether the answer shows it. */
const cases: [body: Record<string, unknown>, amount: string | number | undefined, shown?: boolean][] = [
  [{}, undefined],
  [{ reasoning: null, thinking: null, enable_thinking: null, chat_template_kwargs: {}, extra_body: {} }, undefined],
  [{ reasoning_effort: "high" }, "high"],
  [{ reasoning_effort: "disable" }, "none"],
  [{ reasoning_effort: "default" }, undefined],
  [{ reasoning_effort: "auto", reasoning: { effort: "low" } }, "low", true],
  [{ reasoning_effort: "none", thinking: { type: "enabled", budget_tokens: 2_000 } }, "none"],
  [{ reasoning_effort: "low", reasoning: { exclude: true } }, "low", false],
  [{ reasoning: {} }, undefined],
  [{ reasoning: { effort: "xhigh" } }, "xhigh", true],
  [{ reasoning: { effort: "none" } }, "none"],
  [{ reasoning: { effort: null, max_tokens: 2_000, exclude: false } }, 2_000, true],
  [{ reasoning: { enabled: true } }, "medium", true],
  [{ reasoning: { enabled: false } }, "none"],
  [{ reasoning: { exclude: true } }, undefined, false],
  [{ reasoning: { effort: "much" } }, undefined],
  [{ reasoning: "high" }, undefined],
  [{ thinking: { type: "enabled", budget_tokens: 1_024 } }, 1_024, true],
  [{ thinking: { type: "enabled" } }, "medium", true],
  [{ thinking: { type: "adaptive" } }, "medium", true],
  [{ thinking: { type: "disabled", budget_tokens: 1_024 } }, "none"],
  [{ thinking: { type: "auto" } }, undefined],
  [{ enable_thinking: false }, "none"],
  [{ enable_thinking: true, thinking_budget: 4_000 }, 4_000, true],
  [{ enable_thinking: false, thinking_budget: 4_000 }, "none"],
  [{ thinking_budget: 0 }, "none"],
  [{ chat_template_kwargs: { enable_thinking: false } }, "none"],
  [{ chat_template_kwargs: { thinking: true } }, "medium", true],
  [google({ thinking_budget: 800, include_thoughts: true }), 800, true],
  [google({ thinking_level: "LOW" }), "low", false],
  [google({ thinking_budget: -1, include_thoughts: true }), undefined, true],
  [google({ thinking_budget: 0 }), "none"],
];

test("thinking is read from the fields of all servers of this format", () => {
  for (const [body, amount, shown] of cases) {
    const { effort, thinkingTokensMax, thinkingShown } = thinkingIn(body);
    assert.ok(effort === undefined || thinkingTokensMax === undefined);
    assert.deepEqual(
      [effort?.value ?? thinkingTokensMax?.value, thinkingShown?.value],
      [amount, shown],
      JSON.stringify(body),
    );
  }
});

test("each vendor gets the thinking that OpenRouter's clients ask for", () => {
  const fieldsOf = (reasoning: object, dialect: ConversationDialect, model: string, field: string) => {
    const body = { model: "m", messages: [{ role: "user", content: "Go" }], reasoning };
    const request = codecs["openai-chat"].decodeRequest({ body, framing: "whole" });
    const wire = codecs[dialect].encodeRequest(request, "whole", targetOf(dialect, model));
    return JSON.parse(wire.body.toString())[field];
  };
  const budget = { max_tokens: 4_000 };
  assert.deepEqual(fieldsOf(budget, "anthropic-messages", "claude-sonnet-4-5", "thinking"), {
    type: "enabled",
    budget_tokens: 4_000,
    display: "summarized",
  });
  assert.deepEqual(fieldsOf(budget, "gemini", "gemini-2.5-flash", "generationConfig").thinkingConfig, {
    thinkingBudget: 4_000,
    includeThoughts: true,
  });
  assert.deepEqual(fieldsOf(budget, "openai-responses", "gpt-5.2", "reasoning"), { effort: "medium", summary: "auto" });
  assert.deepEqual(fieldsOf({ enabled: false }, "gemini", "gemini-2.5-flash", "generationConfig").thinkingConfig, {
    thinkingBudget: 0,
  });
});
