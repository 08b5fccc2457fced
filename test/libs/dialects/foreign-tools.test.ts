/**
 * Tools that one vendor defines and the caller runs, with models of the other vendors: offered,
 * called, answered, and called again in the history.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import type { Answer, NeutralRequest } from "#dialects/neutral/neutral.ts";
import { eventsOf } from "#dialects/neutral/neutral.ts";
import { targetOf } from "../../support/target.ts";

type Json = Record<string, unknown>;

const wireOf = (request: NeutralRequest, spoken: ConversationDialect): Json =>
  JSON.parse(
    codecs[spoken].encodeRequest(consistent(request), "whole", targetOf(spoken, "upstream-name")).body.toString(),
  );
const decoded = (dialect: ConversationDialect, body: Json): NeutralRequest =>
  codecs[dialect].decodeRequest({ body: { model: "m", ...body }, framing: "sse" });
const foreignTo = (dialect: ConversationDialect) => conversationDialects.filter((other) => other !== dialect);

const contextOf = (request: NeutralRequest, body: Json = {}): AnswerContext => ({
  id: "1",
  model: "m",
  createdAt: 1,
  framing: "sse",
  request,
  body,
});
const answerOf = (name: string, input: string): Answer => ({
  blocks: [{ kind: "call", id: "call_1", name, input }],
  finish: "calls",
});
const wholeItem = (request: NeutralRequest, answer: Answer): Json =>
  JSON.parse(codecs["openai-responses"].encodeAnswer(answer, contextOf(request))).output[0];
const streamed = (request: NeutralRequest, answer: Answer): Json[] => {
  const encoder = codecs["openai-responses"].streamEncoder(contextOf(request));
  return eventsOf(answer)
    .map((event) => (event.kind === "error" ? "" : encoder.push(event)))
    .join("")
    .split("\n")
    .flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []));
};

/** The names of the functions that an upstream is offered. */
function namesIn(body: Json): unknown[] {
  return ((body.tools ?? []) as Json[]).flatMap(({ name, function: nested, functionDeclarations }) =>
    Array.isArray(functionDeclarations)
      ? functionDeclarations.map((one: Json) => one.name)
      : [(nested as Json | undefined)?.name ?? name],
  );
}

interface Row {
  tool: Json;
  /** The model's arguments, and the item that the caller gets of them. */
  args: Json;
  item: Json;
  output: Json;
  resultText: string;
}

const screenshot = "data:image/png;base64,iVBORw0KGgo=";
const rows: Row[] = [
  {
    tool: { type: "shell" },
    args: { commands: ["ls"], timeout_ms: 5 },
    item: {
      type: "shell_call",
      action: { commands: ["ls"], timeout_ms: 5, max_output_length: null },
      environment: { type: "local" },
    },
    output: {
      type: "shell_call_output",
      output: [{ stdout: "a b", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
    },
    resultText: "a b\nExit code: 0",
  },
  {
    tool: { type: "local_shell" },
    args: { command: ["ls", "-l"], working_directory: "/srv" },
    item: {
      type: "local_shell_call",
      action: { type: "exec", command: ["ls", "-l"], env: {}, working_directory: "/srv" },
    },
    output: { type: "local_shell_call_output", output: '{"$ref":"not a schema"}' },
    resultText: '{"$ref":"not a schema"}',
  },
  {
    tool: { type: "apply_patch" },
    args: { type: "update_file", path: "a.ts", diff: "@@\n-a\n+b" },
    item: { type: "apply_patch_call", operation: { type: "update_file", path: "a.ts", diff: "@@\n-a\n+b" } },
    output: { type: "apply_patch_call_output", status: "completed", output: "patched" },
    resultText: "patched",
  },
  {
    tool: { type: "computer_use_preview", display_width: 10, display_height: 20, environment: "browser" },
    args: { type: "click", x: 1, y: 2 },
    item: { type: "computer_call", action: { type: "click", x: 1, y: 2, button: "left" }, pending_safety_checks: [] },
    output: { type: "computer_call_output", output: { type: "computer_screenshot", image_url: screenshot } },
    resultText: "iVBORw0KGgo=",
  },
  {
    tool: { type: "computer" },
    args: { type: "keypress", keys: ["ctrl", "s"] },
    item: { type: "computer_call", actions: [{ type: "keypress", keys: ["ctrl", "s"] }], pending_safety_checks: [] },
    output: { type: "computer_call_output", output: { type: "computer_screenshot", image_url: screenshot } },
    resultText: "iVBORw0KGgo=",
  },
  {
    tool: { type: "tool_search", execution: "client", description: "Finds tools" },
    args: { query: "mail" },
    item: { type: "tool_search_call", execution: "client", arguments: { query: "mail" } },
    output: { type: "tool_search_output", execution: "client", tools: [{ type: "function", name: "send_mail" }] },
    resultText: "send_mail",
  },
];

for (const { tool, args, item, output, resultText } of rows)
  test(`${tool.type} of Responses is a function for other vendors, and its calls and outputs keep the caller's item types`, () => {
    const type = String(tool.type);
    const offered = decoded("openai-responses", { input: "Go", tools: [tool], tool_choice: { type } });
    for (const spoken of foreignTo("openai-responses"))
      assert.deepEqual(namesIn(wireOf(offered, spoken)), [type], spoken);
    assert.deepEqual(wireOf(offered, "openai-responses").tools, [tool]);
    assert.deepEqual(wireOf(offered, "openai-responses").tool_choice, { type });

    const answer = answerOf(type, JSON.stringify(args));
    const { id: _id, ...whole } = wholeItem(offered, answer);
    assert.deepEqual(whole, { status: "completed", call_id: "call_1", ...item });
    const events = streamed(offered, answer);
    const [added, done] = ["added", "done"].map((end) =>
      events.filter((event) => event.type === `response.output_item.${end}`),
    );
    assert.equal(added?.length, 1);
    assert.deepEqual(done?.[0]?.item, wholeItem(offered, answer));

    const input = [
      { role: "user", content: "Go" },
      wholeItem(offered, answer),
      { call_id: "call_1", ...output },
      { role: "user", content: "And?" },
    ];
    const history = decoded("openai-responses", { input, tools: [tool] });
    const call = history.messages.flatMap(({ parts }) => parts).find((part) => part.kind === "call");
    assert.equal(call?.name, type);
    for (const [name, value] of Object.entries(args)) assert.deepEqual(JSON.parse(call?.input ?? "")[name], value);
    for (const spoken of foreignTo("openai-responses"))
      assert.ok(JSON.stringify(wireOf(history, spoken)).includes(JSON.stringify(resultText).slice(1, -1)), spoken);
    assert.deepEqual((wireOf(history, "openai-responses").input as Json[]).slice(1, 3), input.slice(1, 3));
  });

test("a call of a vendor's tool with broken arguments is an item without content, never text that a shell would run", () => {
  for (const { tool } of rows) {
    const request = decoded("openai-responses", { input: "Go", tools: [tool] });
    const item = wholeItem(request, answerOf(String(tool.type), "rm -rf /"));
    assert.ok(!JSON.stringify(item).includes("rm -rf"));
  }
});

test("an output names its call by the id of the call or of its item", () => {
  const input = [
    {
      type: "local_shell_call",
      id: "lsh_1",
      call_id: "call_1",
      action: { type: "exec", command: ["ls"], env: {} },
      status: "completed",
    },
    { type: "local_shell_call_output", id: "lsh_1", output: "a" },
  ];
  const { messages } = decoded("openai-responses", { input, tools: [{ type: "local_shell" }] });
  assert.deepEqual(
    messages.flatMap(({ parts }) => parts.map((part) => part.kind === "result" && part.callId)),
    [false, "call_1"],
  );
});

test("tools that agents send by habit are never refused, and tools that a search loaded are offered", () => {
  const tools = [
    { type: "function", name: "a" },
    { type: "namespace", name: "mcp__mail" },
    {
      type: "namespace",
      name: "mcp__files",
      tools: [
        { type: "custom", name: "write" },
        { type: "function", name: "read", defer_loading: true },
      ],
    },
    { type: "web_search", external_web_access: false },
    { type: "image_generation", output_format: "png" },
    { type: "tool_search" },
    { type: "programmatic_tool_calling" },
  ];
  const input = [
    { role: "user", content: "Go" },
    { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "x" } },
    { type: "tool_search_call", id: "ts_1", call_id: null, execution: "server", arguments: {}, status: "completed" },
    {
      type: "tool_search_output",
      id: "to_1",
      call_id: null,
      execution: "server",
      tools: [{ type: "function", name: "loaded" }],
    },
    { type: "mcp_list_tools", id: "m_1", server_label: "s", tools: [] },
    { role: "assistant", content: "Yes" },
    { role: "user", content: "Go on" },
  ];
  for (const spoken of foreignTo("openai-responses"))
    assert.deepEqual(namesIn(wireOf(decoded("openai-responses", { input, tools }), spoken)), [
      "a",
      "mcp__files__write",
      "mcp__files__read",
      "loaded",
    ]);
});

test("Anthropic's client tools of every version are functions for other vendors", () => {
  const display = { display_width_px: 800, display_height_px: 600 };
  const tools = [
    ["bash_20241022", "bash"],
    ["bash_20250124", "bash"],
    ["text_editor_20250728", "str_replace_based_edit_tool"],
    ["memory_20250818", "memory"],
    ["memory_20990101", "memory"],
    ["computer_20241022", "computer"],
    ["computer_20250124", "computer"],
    ["computer_20251124", "computer"],
  ];
  for (const [type, name] of tools) {
    const request = decoded("anthropic-messages", {
      max_tokens: 10,
      messages: [
        { role: "user", content: "Go" },
        {
          role: "assistant",
          content: [
            { type: "server_tool_use", id: "s", name: "web_search", input: {} },
            { type: "web_search_tool_result", tool_use_id: "s", content: [] },
            { type: "text", text: "Hm" },
          ],
        },
        { role: "user", content: "Go on" },
      ],
      tools: [
        { type, name, ...display, enable_zoom: true },
        { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" },
      ],
    });
    for (const spoken of foreignTo("anthropic-messages"))
      assert.deepEqual(namesIn(wireOf(request, spoken)), [name], type);
    const whole = JSON.parse(
      codecs["anthropic-messages"].encodeAnswer(answerOf(name as string, '{"action":"zoom"}'), contextOf(request)),
    );
    assert.deepEqual(whole.content, [{ type: "tool_use", id: "call_1", name, input: { action: "zoom" } }]);
  }
});

test("examples of a tool's input become part of its description", () => {
  const tools = [
    {
      name: "f",
      description: "Does f",
      input_schema: { type: "object" },
      input_examples: [{ a: 1 }],
      eager_input_streaming: true,
      allowed_callers: ["direct"],
      defer_loading: false,
    },
  ];
  const request = decoded("anthropic-messages", { max_tokens: 10, messages: [{ role: "user", content: "Go" }], tools });
  for (const spoken of foreignTo("anthropic-messages"))
    assert.match(JSON.stringify(wireOf(request, spoken).tools), /Does f\\n\\nExamples of the input:\\n\{\\"a\\":1\}/);
});

test("tools of a chat request may have the shapes of other dialects", () => {
  const parameters = { type: "object", properties: { a: { type: "string" } } };
  const tools = [
    { type: "function", name: "flat", parameters },
    { name: "bare", input_schema: parameters, description: "Bare" },
    { type: "custom", name: "typed", input_schema: parameters },
    {
      type: "custom",
      name: "ApplyPatch",
      description: "Patches",
      format: { type: "grammar", syntax: "lark", definition: "start: x" },
    },
    {
      type: "custom",
      custom: { name: "nested", format: { type: "grammar", grammar: { syntax: "regex", definition: "a+" } } },
    },
    { type: "function", function: { name: "own", parameters } },
    { type: "web_search" },
  ];
  const messages = [{ role: "user", content: "Go" }];
  const request = decoded("openai-chat", { messages, tools, tool_choice: { type: "function", name: "flat" } });
  assert.deepEqual(request.toolChoice, { mode: "required", only: ["flat"], path: "tool_choice" });
  for (const spoken of conversationDialects)
    assert.deepEqual(
      namesIn(wireOf({ ...request, toolChoice: { mode: "auto", path: "" } }, spoken)),
      ["flat", "bare", "typed", "ApplyPatch", "nested", "own"],
      spoken,
    );
  assert.match(
    JSON.stringify(wireOf(request, "openai-chat").tools),
    /must follow this lark grammar:\\nstart: x.*must follow this regex grammar:\\na\+/,
  );
  assert.deepEqual((wireOf(request, "openai-responses").tools as Json[])[3], {
    type: "custom",
    name: "ApplyPatch",
    description: "Patches",
    format: { type: "grammar", syntax: "lark", definition: "start: x" },
  });
});

const looks = [
  '{"a":1}',
  '{"$ref":"#/$defs/x","$defs":{}}',
  "<result>1</result>",
  '"quoted"',
  "[1,2]",
  "null",
  "{broken",
  "",
];

test("the text of a tool's result stays text, whatever it looks like", () => {
  for (const text of looks) {
    const request = decoded("openai-chat", {
      messages: [
        { role: "user", content: "Go" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "c", content: text },
      ],
      tools: [{ type: "function", function: { name: "f" } }],
    });
    const { contents } = wireOf(request, "gemini") as { contents: { parts: { functionResponse?: Json }[] }[] };
    assert.deepEqual(contents[2]?.parts[0]?.functionResponse?.response, { output: text });
    assert.equal((wireOf(request, "openai-responses").input as Json[])[2]?.output, text);
    assert.equal((wireOf(request, "openai-chat").messages as Json[])[2]?.content, text);
    const { messages } = wireOf(request, "anthropic-messages") as { messages: { content: { content?: Json[] }[] }[] };
    assert.deepEqual(messages[2]?.content[0]?.content, text === "" ? undefined : [{ type: "text", text }]);
  }
});

test("an object that a Gemini caller gave as a result stays an object for Gemini", () => {
  const request = decoded("gemini", {
    contents: [
      { role: "user", parts: [{ text: "Go" }] },
      { role: "model", parts: [{ functionCall: { name: "f", args: {} } }] },
      { role: "user", parts: [{ functionResponse: { name: "f", response: { a: 1, b: [2] } } }] },
    ],
  });
  const { contents } = wireOf(request, "gemini") as { contents: { parts: { functionResponse?: Json }[] }[] };
  assert.deepEqual(contents[2]?.parts[0]?.functionResponse?.response, { a: 1, b: [2] });
  assert.equal((wireOf(request, "openai-chat").messages as Json[])[2]?.content, '{"a":1,"b":[2]}');
});

test("images and documents in a chat caller's tool message reach every upstream", () => {
  const pdf = "data:application/pdf;base64,JVBERi0xLjQK";
  const request = decoded("openai-chat", {
    messages: [
      { role: "user", content: "Go" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      {
        role: "tool",
        tool_call_id: "c",
        content: [
          { type: "image_url", image_url: { url: screenshot } },
          { type: "file", file: { filename: "a.pdf", file_data: pdf } },
        ],
      },
    ],
    tools: [{ type: "function", function: { name: "f" } }],
  });
  for (const spoken of conversationDialects) {
    const body = JSON.stringify(wireOf(request, spoken));
    for (const data of ["iVBORw0KGgo=", "JVBERi0xLjQK"]) assert.ok(body.includes(data), `${spoken} ${data}`);
  }
  const messages = wireOf(request, "openai-chat").messages as Json[];
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant", "tool", "user"],
  );
  assert.equal(messages[2]?.content, "The result is in the next message.");
});

test("other models learn that a rule against JSON is not about the arguments of a tool with free text", () => {
  const tool = { type: "custom", name: "apply_patch", description: "Do not wrap the patch in JSON." };
  const body = { model: "m", input: "Go", tools: [tool] };
  const request = codecs["openai-responses"].decodeRequest({ body, framing: "whole" });
  for (const upstream of ["openai-chat", "anthropic-messages", "gemini"] as const)
    assert.match(JSON.stringify(wireOf(request, upstream).tools), /"input":\{[^}]*not about the arguments/, upstream);
});
