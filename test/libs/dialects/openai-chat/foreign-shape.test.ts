/**
 * Cursor's requests to chat completions: bodies of Responses, flat and mixed tools. Its answers are
 * chat completions, with functions alone.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { eventsOf, type NeutralRequest } from "#dialects/neutral/neutral.ts";
import { foreignShapeOf } from "#dialects/openai-chat/foreign-shape.ts";
import { prepare } from "#operations/exchanges.ts";
import { targetOf } from "../../../support/target.ts";
import { contextOf } from "../support.ts";

type Json = Record<string, unknown>;

const parameters = { type: "object", properties: { path: { type: "string" } } };
const nested = { type: "function", function: { name: "Shell", parameters } };
const flat = { type: "function", name: "ReadFile", description: "Reads", parameters, strict: false };
const applyPatch = {
  type: "custom",
  name: "ApplyPatch",
  description: "Edits",
  format: { type: "grammar", syntax: "lark", definition: "start: x" },
};
const anthropic = { name: "Grep", description: "Searches", input_schema: parameters };
const patch = "*** Begin Patch\n*** End Patch";

const decoded = (body: Json): NeutralRequest =>
  consistent(codecs["openai-chat"].decodeRequest({ body: { model: "m", ...body }, framing: "sse" }));

test("only requests in another dialect's shape are recognised", () => {
  const messages = [{ role: "user", content: "Go" }];
  const cases: [Json, string | undefined][] = [
    [{ messages }, undefined],
    [{ messages, tools: [nested, { type: "custom", custom: { name: "x" } }] }, undefined],
    [{ messages, tools: [] }, undefined],
    [{ messages, tools: [nested, flat] }, "tools"],
    [{ messages, tools: [applyPatch] }, "tools"],
    [{ messages, tools: [anthropic] }, "tools"],
    [{ input: messages }, "body"],
    [{ messages, input: "x" }, undefined],
    [{ messages, tools: [{ name: "x" }] }, undefined],
  ];
  for (const [body, expected] of cases)
    assert.equal(foreignShapeOf(Buffer.from(JSON.stringify({ model: "m", ...body }))), expected, JSON.stringify(body));
});

const bodies: [string, Json][] = [
  [
    "messages and mixed tools",
    {
      messages: [
        { role: "system", content: "S" },
        { role: "user", content: "Go" },
      ],
    },
  ],
  [
    "the input of Responses",
    {
      input: [
        { role: "system", content: "S" },
        { role: "user", content: [{ type: "input_text", text: "Go" }] },
      ],
      reasoning: { effort: "high" },
      store: false,
    },
  ],
  [
    "chat messages as input",
    {
      input: [
        { role: "system", content: "S" },
        { role: "user", content: "Go" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c", type: "function", function: { name: "ApplyPatch", arguments: patch } }],
        },
        { role: "tool", tool_call_id: "c", content: "done" },
      ],
    },
  ],
];
for (const [name, body] of bodies)
  test(`a chat request with ${name} reaches every upstream`, () => {
    const tools = name === "the input of Responses" ? [flat, applyPatch] : [nested, flat, applyPatch, anthropic];
    const request = decoded({ ...body, tools });
    assert.deepEqual(
      request.tools.map(({ callerName, takesText }) => [callerName, takesText === true]),
      tools.map((tool) => [(tool as Json).name ?? "Shell", tool === applyPatch]),
    );
    for (const spoken of conversationDialects) {
      const wire = codecs[spoken].encodeRequest(request, "sse", targetOf(spoken, "theirs")).body.toString();
      for (const part of ["Go", "ReadFile", "ApplyPatch"]) assert.ok(wire.includes(part), `${spoken}: ${part}`);
    }
  });

test("a call of a flat custom tool has its text in place of a function's arguments, whole and streamed", () => {
  const request = decoded({ messages: [{ role: "user", content: "Go" }], tools: [applyPatch] });
  const answer = {
    blocks: [{ kind: "call" as const, id: "c", name: "ApplyPatch", input: JSON.stringify({ input: patch }) }],
    finish: "calls" as const,
  };
  const call = { id: "c", type: "function", function: { name: "ApplyPatch", arguments: patch } };
  const whole = JSON.parse(codecs["openai-chat"].encodeAnswer(answer, contextOf(request)));
  assert.deepEqual(whole.choices[0].message.tool_calls, [call]);
  const encoder = codecs["openai-chat"].streamEncoder(contextOf(request));
  const chunks = eventsOf(answer)
    .map((event) => (event.kind === "error" ? "" : encoder.push(event)))
    .join("")
    .split("\n")
    .flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice(6))] : []));
  assert.deepEqual(
    chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []),
    [{ index: 0, ...call }],
  );
});

test("the text of such a call in the history is the tool's input again", () => {
  const history = [
    { role: "user", content: "Go" },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "ApplyPatch", arguments: patch } }],
    },
    { role: "tool", tool_call_id: "c", content: "done" },
  ];
  const request = decoded({ messages: history, tools: [applyPatch] });
  const input = JSON.parse(
    codecs["openai-responses"].encodeRequest(request, "sse", targetOf("openai-responses", "theirs")).body.toString(),
  ).input;
  assert.deepEqual(input[1], { type: "custom_tool_call", call_id: "c", name: "ApplyPatch", input: patch });
  const anthropicBody = JSON.parse(
    codecs["anthropic-messages"]
      .encodeRequest(request, "sse", targetOf("anthropic-messages", "claude"))
      .body.toString(),
  );
  assert.deepEqual(anthropicBody.messages[1].content[0].input, { input: patch });
});

test("an upstream of chat completions gets such a request in its own shape", async () => {
  const body = Buffer.from(JSON.stringify({ model: "mine", input: "Go", tools: [flat, applyPatch] }));
  const prepared = await prepare(
    {
      operation: "answer",
      dialect: "openai-chat",
      spoken: "openai-chat",
      framing: "sse",
      headers: {},
      contentType: "application/json",
      model: "mine",
      createdAt: 1,
      target: targetOf("openai-chat", "theirs"),
      resumes: false,
      countsTokens: true,
      body,
    },
    async () => [],
  );
  assert.ok(prepared.kind === "conversation");
  const { messages, tools, input } = JSON.parse(prepared.request.body.toString());
  assert.deepEqual([messages, input], [[{ role: "user", content: "Go" }], undefined]);
  assert.deepEqual(
    tools.map((tool: { type: string; function: Json }) => [tool.type, tool.function.name]),
    [
      ["function", "ReadFile"],
      ["function", "ApplyPatch"],
    ],
  );
});

test("a choice in the shape of Anthropic's Messages says whether calls may be parallel", () => {
  for (const choice of [{ type: "auto" }, { type: "any" }, { type: "tool", name: "Grep" }])
    for (const [disabled, expected] of [
      [true, false],
      [false, undefined],
    ]) {
      const { settings } = decoded({
        messages: [{ role: "user", content: "Go" }],
        tools: [anthropic],
        tool_choice: { ...choice, disable_parallel_tool_use: disabled },
      });
      assert.equal(settings.parallelCalls?.value, expected, choice.type);
    }
});
