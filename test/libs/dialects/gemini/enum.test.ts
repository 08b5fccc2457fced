import assert from "node:assert/strict";
import { test } from "node:test";
import { gemini } from "#dialects/gemini/codec.ts";
import type { Refusal } from "#dialects/neutral/field-support.ts";
import { openaiResponses } from "#dialects/openai-responses/codec.ts";
import { targetOf } from "../../../support/target.ts";

const target = targetOf("gemini", "m");
const bodyOf = (generationConfig: object) => ({ contents: [{ parts: [{ text: "An oboe?" }] }], generationConfig });
const decoded = (generationConfig: object) =>
  gemini.decodeRequest({ body: bodyOf(generationConfig), framing: "whole" });
const responseSchema = { type: "STRING", format: "enum", enum: ["Woodwind", "String"], description: "The kind." };

test("an enum becomes an object schema, which OpenAI's models enforce", () => {
  const sent = openaiResponses.encodeRequest(
    decoded({ responseMimeType: "text/x.enum", responseSchema }),
    "whole",
    target,
  ).body;
  const value = { type: "string", enum: responseSchema.enum, description: "The kind." };
  assert.deepEqual(JSON.parse(String(sent)).text.format, {
    type: "json_schema",
    name: "answer",
    schema: { type: "object", properties: { value }, required: ["value"], additionalProperties: false },
    strict: true,
  });
  for (const schema of [
    {},
    { responseSchema: { type: "STRING" } },
    { responseSchema: { type: "INTEGER", enum: [1] } },
    { responseSchema: { enum: [] } },
  ])
    assert.throws(
      () => decoded({ responseMimeType: "text/x.enum", ...schema }),
      (error: Refusal) => error.param === "generationConfig.responseMimeType",
    );
});

test("the caller gets the bare value, nothing of a truncated object, and any other text unchanged", () => {
  const request = decoded({ responseMimeType: "text/x.enum", responseSchema });
  for (const [text, expected] of [
    ['{"value":"Woodwind"}', "Woodwind"],
    [' {\n "value": "String"\n}\n', "String"],
    ['{"value":"Wood', ""],
    ["Woodwind\n", "Woodwind"],
    ['{"kind":"String"}', '{"kind":"String"}'],
  ] as const)
    for (const body of [
      bodyOf({ responseMimeType: "text/x.enum" }),
      { generation_config: { response_mime_type: "text/x.enum" } },
    ]) {
      const context = { id: "a", model: "m", createdAt: 1, framing: "whole" as const, request, body };
      const answer = { blocks: [{ kind: "text" as const, text }], finish: "stop" as const };
      const { parts } = JSON.parse(gemini.encodeAnswer(answer, context)).candidates[0].content;
      assert.equal(parts.map((part: { text: string }) => part.text).join(""), expected);
    }
});
