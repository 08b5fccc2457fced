import assert from "node:assert/strict";
import { test } from "node:test";
import { callerFieldOf } from "#dialects/neutral/caller-field.ts";
import type { NeutralRequest } from "#dialects/neutral/neutral.ts";

const request: NeutralRequest = {
  system: [],
  messages: [],
  tools: [
    { name: "f", callerName: "f", path: "tools[0].functionDeclarations[0]" },
    { name: "g", callerName: "g", path: "tools[0].functionDeclarations[1]" },
  ],
  toolChoice: { mode: "required", path: "toolConfig.functionCallingConfig" },
  settings: {
    outputTokensMax: { value: 5, path: "generationConfig.maxOutputTokens" },
    temperature: { value: 1, path: "generationConfig.temperature" },
    stop: { value: ["END"], path: "generationConfig.stopSequences" },
    thinkingTokensMax: { value: 1_024, path: "generationConfig.thinkingConfig.thinkingBudget" },
    format: { value: { kind: "json" }, path: "generationConfig.responseMimeType" },
  },
};

test("an upstream's field name is mapped to the caller's own, if there is one", () => {
  for (const [field, own] of [
    ["max_tokens", "generationConfig.maxOutputTokens"],
    ["max_completion_tokens", "generationConfig.maxOutputTokens"],
    ["max_output_tokens", "generationConfig.maxOutputTokens"],
    ["generation_config.max_output_tokens", "generationConfig.maxOutputTokens"],
    ["generationConfig.temperature", "generationConfig.temperature"],
    ["temperature", "generationConfig.temperature"],
    ["stop", "generationConfig.stopSequences"],
    ["stop_sequences.0", "generationConfig.stopSequences"],
    ["response_format.json_schema.schema", "generationConfig.responseMimeType"],
    ["text.format.schema", "generationConfig.responseMimeType"],
    ["output_config.format.schema", "generationConfig.responseMimeType"],
    ["reasoning_effort", "generationConfig.thinkingConfig.thinkingBudget"],
    ["thinking.budget_tokens", "generationConfig.thinkingConfig.thinkingBudget"],
    ["tools[1].function.parameters", "tools[0].functionDeclarations[1]"],
    ["tools.0.custom.input_schema", "tools[0].functionDeclarations[0]"],
    ["tools[0].function_declarations[1].parameters", "tools[0].functionDeclarations[1]"],
    ["tool_choice.name", "toolConfig.functionCallingConfig"],
    ["top_p", undefined],
    ["tools[7].name", undefined],
    ["messages[3].content", undefined],
    ["stopwatch", undefined],
    ["", undefined],
  ] as const)
    assert.equal(callerFieldOf(field, request), own, field);
});
