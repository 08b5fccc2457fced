import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { wireOf } from "../support.ts";

test("JSON without a schema is named, because OpenAI refuses it otherwise", () => {
  const wire = (dialect: "openai-chat" | "openai-responses", system: string, text: string) => {
    const body = {
      contents: [{ role: "user", parts: [{ text }] }],
      systemInstruction: { parts: [{ text: system }] },
      generationConfig: { responseMimeType: "application/json" },
    };
    return wireOf(codecs.gemini.decodeRequest({ body, framing: "whole" }), dialect);
  };
  const instruction = /^Be brief\.\s+Answer with one JSON object/;
  const [first, ...others] = wire("openai-chat", "Be brief.", "Two colours?").messages as { content: string }[];
  assert.match(first?.content ?? "", instruction);
  assert.equal(others.length, 1);
  for (const [system, text] of [
    ["Be brief.", "Two colours as json?"],
    ["Write JSON.", "Two colours?"],
  ] as const)
    assert.equal((wire("openai-chat", system, text).messages as { content: string }[])[0]?.content, system);

  // The instructions beside the input do not count.
  const { instructions, input } = wire("openai-responses", "Be brief.", "Two colours?");
  assert.equal(instructions, undefined);
  const [item] = input as { role: string; content: { text: string }[] }[];
  assert.equal(item?.role, "developer");
  assert.match(item?.content.map(({ text }) => text).join("\n") ?? "", instruction);
  assert.equal(wire("openai-responses", "Be brief.", "Two colours as json?").instructions, "Be brief.");
});
