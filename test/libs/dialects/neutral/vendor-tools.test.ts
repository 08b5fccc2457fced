/** Tools that a vendor runs, in requests that go to a model of another vendor. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;

/** A request with the function `f` and one more tool. */
const bodyOf: Record<ConversationDialect, (tool: Json, fields: Json) => Json> = {
  "openai-chat": (tool, fields) => ({
    model: "m",
    messages: [{ role: "user", content: "Go" }],
    tools: [{ type: "function", function: { name: "f" } }, tool],
    ...fields,
  }),
  "openai-responses": (tool, fields) => ({
    model: "m",
    input: "Go",
    tools: [{ type: "function", name: "f" }, tool],
    ...fields,
  }),
  "anthropic-messages": (tool, fields) => ({
    model: "m",
    max_tokens: 10,
    messages: [{ role: "user", content: "Go" }],
    tools: [{ name: "f", input_schema: { type: "object" } }, tool],
    ...fields,
  }),
  gemini: (tool, fields) => ({
    contents: [{ role: "user", parts: [{ text: "Go" }] }],
    tools: [{ functionDeclarations: [{ name: "f" }] }, tool],
    ...fields,
  }),
};

const decoded = (dialect: ConversationDialect, tool: Json, fields: Json = {}) =>
  consistent(codecs[dialect].decodeRequest({ body: bodyOf[dialect](tool, fields), framing: "whole" }));

/** `true`: the caller is told. */
const dispensable: Record<ConversationDialect, [Json, boolean][]> = {
  "openai-chat": [
    [{ type: "web_search" }, false],
    [{ type: "web_search_preview" }, false],
    [{ type: "image_generation" }, false],
    [{ type: "code_interpreter", container: { type: "auto" } }, true],
    [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }, true],
    [{ type: "browser_search" }, true],
    [{ type: "builtin_function", function: { name: "$web_search" } }, true],
    [{ type: "openrouter:web_search" }, true],
  ],
  "openai-responses": [
    [{ type: "web_search", external_web_access: false }, false],
    [{ type: "web_search_preview_2025_03_11" }, false],
    [{ type: "image_generation" }, false],
    [{ type: "code_interpreter", container: { type: "auto" } }, true],
    [{ type: "x_search" }, true],
  ],
  "anthropic-messages": [
    [{ type: "web_search_20250305", name: "web_search", max_uses: 5 }, true],
    [{ type: "web_search_20260318", name: "web_search" }, true],
    [{ type: "web_fetch_20250910", name: "web_fetch" }, true],
    [{ type: "code_execution_20250825", name: "code_execution" }, true],
    [{ type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" }, false],
    [{ type: "advisor_20260301", name: "advisor", model: "claude-opus-4-6" }, false],
  ],
  gemini: [
    [{ googleSearch: {} }, true],
    [{ google_search: {} }, true],
    [{ googleSearchRetrieval: { dynamicRetrievalConfig: {} } }, true],
    [{ urlContext: {} }, true],
    [{ codeExecution: {} }, true],
    [{ googleMaps: {} }, true],
  ],
};

for (const dialect of conversationDialects)
  test(`tools of ${dialect} that a vendor runs are left out, and the caller is told`, () => {
    for (const [tool, isTold] of dispensable[dialect]) {
      const what = JSON.stringify(tool);
      const request = decoded(dialect, tool);
      assert.deepEqual(
        request.tools.map(({ name }) => name),
        ["f"],
        what,
      );
      assert.equal(request.warnings?.length ?? 0, isTold ? 1 : 0, what);
      if (isTold) assert.match(String(request.warnings?.[0]), /^tools\[1\]\S* is \S+, which its vendor runs;/);
      for (const spoken of conversationDialects)
        codecs[spoken].encodeRequest(request, "whole", targetOf(spoken, "upstream-name"));
    }
  });

const refused: [ConversationDialect, Json, Json, string][] = [
  [
    "anthropic-messages",
    { type: "web_search_20250305", name: "web_search" },
    { tool_choice: { type: "tool", name: "web_search" } },
    "tool_choice",
  ],
  ["openai-responses", { type: "web_search" }, { tool_choice: { type: "web_search" } }, "tool_choice"],
  ["openai-chat", { type: "web_search" }, { tool_choice: { type: "web_search" } }, "tool_choice"],
  ["openai-responses", { type: "mcp", server_label: "s", server_url: "https://example.com" }, {}, "tools[1].type"],
  ["openai-responses", { type: "file_search", vector_store_ids: ["vs_1"] }, {}, "tools[1].vector_store_ids"],
  ["openai-responses", { type: "shell", environment: { type: "container_auto" } }, {}, "tools[1].type"],
  ["anthropic-messages", { type: "mcp_toolset", mcp_server_name: "s" }, {}, "tools[1].type"],
  ["openai-chat", { type: "weird" }, {}, "tools[1].type"],
  ["gemini", { fileSearch: { fileSearchStoreNames: ["x"] } }, {}, "tools[1].fileSearch"],
];

test("one that a request forces is refused, and so is one that names what only its vendor has", () => {
  for (const [dialect, tool, fields, param] of refused)
    assert.throws(
      () => decoded(dialect, tool, fields),
      (error) => error instanceof Refusal && error.param === param,
      JSON.stringify(tool),
    );
});

test("a required call is refused where only such tools are offered", () => {
  const only = { tools: [{ type: "web_search_20250305", name: "web_search" }], tool_choice: { type: "any" } };
  assert.throws(
    () => decoded("anthropic-messages", {}, only),
    (error) => error instanceof Refusal && error.param === "tool_choice",
  );
});
