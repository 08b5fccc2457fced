import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { anthropicMessages } from "#dialects/anthropic-messages/codec.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { continueText } from "#dialects/neutral/history.ts";
import type { Message, NeutralRequest, Part, Settings, TextPart, Tool } from "#dialects/neutral/neutral.ts";
import { textToolParameters } from "#dialects/neutral/tools.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { strictBounds, structuredSchemaOf } from "#dialects/schema/anthropic.ts";
import type { JsonObject } from "#wire/json/parse.ts";
import { messageQuestionOf } from "../../../../apps/simulator/dialects/anthropic-messages/request.ts";
import { targetOf } from "../../../support/target.ts";

type Body = Record<string, unknown>;

const { decodeRequest, encodeRequest, tokenCount } = anthropicMessages;
const claudeOf = (model: string, outputTokensMax?: number) =>
  targetOf("anthropic-messages", model, { outputTokensMax });

const user = (content: unknown) => ({ role: "user", content });
const decoded = (fields: object) =>
  decodeRequest({ body: { model: "m", max_tokens: 16, messages: [user("hi")], ...fields }, framing: "whole" });

/** The body that is sent, once the simulator has found it to be in order. */
function encoded(request: NeutralRequest, model = "claude-haiku-4-5", outputTokensMax?: number): Body {
  const { path, headers, body } = encodeRequest(request, "whole", claudeOf(model, outputTokensMax));
  assert.deepEqual([path, headers], ["/messages", { "anthropic-version": "2023-06-01" }]);
  const value = JSON.parse(body.toString()) as Body;
  assert.doesNotThrow(() => messageQuestionOf(value, headers ?? {}, "0".repeat(64)));
  return value;
}

const refusalOf = (act: () => unknown): { param: string; message: string } => {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error));
    return error;
  }
  return assert.fail("was not refused");
};

const text = (value: string, path = "t"): TextPart => ({ kind: "text", text: value, path });
const messageOf = (role: Message["role"], ...parts: Part[]): Message => ({ role, parts, path: `turn of ${role}` });
const call = (id: string, path = `call ${id}`): Part => ({ kind: "call", id, name: "look", input: '{"at":1}', path });
const result = (callId: string, ...content: TextPart[]): Part => ({
  kind: "result",
  callId,
  name: "look",
  content,
  isError: false,
  path: `result ${callId}`,
});
const requestOf = (...messages: Message[]): NeutralRequest => ({
  system: [],
  messages: [messageOf("user", text("hi")), ...messages],
  tools: [],
  settings: {},
});
const withSettings = (settings: Settings, fields: Partial<NeutralRequest> = {}): NeutralRequest => ({
  ...requestOf(),
  settings,
  ...fields,
});
const look: Tool = {
  name: "look",
  callerName: "look",
  parameters: { type: "object", properties: { at: { type: "integer" } } },
  path: "tools[0]",
};

test("a complete conversation decodes to the neutral form with its own paths", () => {
  const request = decoded({
    system: [
      { type: "text", text: "x-anthropic-billing-header: cc_version=1" },
      { type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } },
    ],
    messages: [
      user([
        { type: "text", text: "Look at this." },
        { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
        {
          type: "document",
          source: { type: "text", media_type: "text/plain", data: "é" },
          title: "notes",
          context: "mine",
        },
        { type: "search_result", source: "http://s", title: "found", content: [{ type: "text", text: "there" }] },
      ]),
      { role: "system", content: "From now on, look twice.", output_config: { effort: "low" } },
      { role: "system", content: "gone", clear_at: "next_user_message" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "SIG" },
          { type: "redacted_thinking", data: "RED" },
          { type: "thinking", thinking: "unsigned", signature: "" },
          { type: "thinking", thinking: "far", signature: wrappedSignatureOf({ dialect: "gemini", data: "G" }) },
          { type: "text", text: "Looking." },
          { type: "tool_use", id: "c1", name: "look", input: { at: 1 } },
          { type: "tool_use", id: "c2", name: "look", input: {} },
        ],
      },
      user([
        {
          type: "tool_result",
          tool_use_id: "c1",
          content: "seen",
          is_error: true,
          cache_control: { type: "ephemeral" },
        },
        { type: "tool_result", tool_use_id: "c2", content: [{ type: "tool_reference", tool_name: "dig" }] },
      ]),
    ],
    tools: [{ name: "look", input_schema: { type: "object" }, strict: true, defer_loading: true }],
    tool_choice: { type: "tool", name: "look", disable_parallel_tool_use: true },
    metadata: { user_id: "u" },
    stop_sequences: ["END"],
    temperature: 0.5,
    top_k: 3,
    max_tokens: 3_000,
    thinking: { type: "enabled", budget_tokens: 2_000, display: "summarized" },
    output_format: { type: "json_schema", schema: { type: "object" } },
  });
  const signed = (path: number, value: string, signature: object) => ({
    kind: "reasoning",
    text: value,
    signature,
    path: `messages[3].content[${path}]`,
  });
  assert.deepEqual(request, {
    system: [{ kind: "text", text: "Be brief.", path: "system[1]", cache: { ttl: "long" } }],
    messages: [
      {
        role: "user",
        path: "messages[0]",
        parts: [
          text("Look at this.", "messages[0].content[0]"),
          {
            kind: "image",
            source: { kind: "data", mimeType: "image/png", data: "AAAA" },
            path: "messages[0].content[1].source",
          },
          text("mine", "messages[0].content[2].context"),
          {
            kind: "file",
            source: { kind: "data", mimeType: "text/plain", data: "w6k=" },
            name: "notes",
            path: "messages[0].content[2].source",
          },
          text("found (http://s)\nthere", "messages[0].content[3]"),
        ],
      },
      { role: "system", path: "messages[1]", parts: [text("From now on, look twice.", "messages[1].content")] },
      {
        role: "assistant",
        path: "messages[3]",
        parts: [
          signed(0, "hm", { dialect: "anthropic-messages", data: "SIG" }),
          signed(1, "", { dialect: "anthropic-messages", data: "RED", redacted: true }),
          { kind: "reasoning", text: "unsigned", path: "messages[3].content[2]" },
          signed(3, "far", { dialect: "gemini", data: "G" }),
          text("Looking.", "messages[3].content[4]"),
          { kind: "call", id: "c1", name: "look", input: '{"at":1}', path: "messages[3].content[5]" },
          { kind: "call", id: "c2", name: "look", input: "", path: "messages[3].content[6]" },
        ],
      },
      {
        role: "user",
        path: "messages[4]",
        parts: [
          {
            kind: "result",
            callId: "c1",
            name: "look",
            content: [text("seen", "messages[4].content[0].content")],
            isError: true,
            path: "messages[4].content[0]",
            cache: { ttl: "short" },
          },
          {
            kind: "result",
            callId: "c2",
            name: "look",
            content: [text("The tool dig is available.", "messages[4].content[1].content[0]")],
            isError: false,
            path: "messages[4].content[1]",
          },
        ],
      },
    ],
    tools: [{ callerName: "look", name: "look", parameters: { type: "object" }, strict: true, path: "tools[0]" }],
    toolChoice: { mode: "required", only: ["look"], path: "tool_choice" },
    settings: {
      outputTokensMax: { value: 3_000, path: "max_tokens" },
      temperature: { value: 0.5, path: "temperature" },
      topK: { value: 3, path: "top_k" },
      stop: { value: ["END"], path: "stop_sequences" },
      parallelCalls: { value: false, path: "tool_choice.disable_parallel_tool_use" },
      user: { value: "u", path: "metadata.user_id" },
      thinkingTokensMax: { value: 2_000, path: "thinking.budget_tokens" },
      thinkingShown: { value: true, path: "thinking.display" },
      format: { value: { kind: "schema", schema: { type: "object" } }, path: "output_format" },
    },
  });
});

test("thinking settings decode in every form", () => {
  const forms: [object, object][] = [
    [
      { thinking: { type: "disabled" }, output_config: { effort: "high" } },
      { effort: { value: "none", path: "thinking" } },
    ],
    [
      { thinking: { type: "adaptive" }, output_config: { effort: "xhigh" } },
      { effort: { value: "xhigh", path: "output_config.effort" } },
    ],
    [
      { thinking: { type: "enabled", budget_tokens: 9_000, display: "omitted" }, output_config: { effort: "medium" } },
      {
        effort: { value: "medium", path: "output_config.effort" },
        thinkingShown: { value: false, path: "thinking.display" },
      },
    ],
    [
      { thinking: { type: "enabled" } },
      {
        effort: { value: "medium", path: "thinking" },
        thinkingShown: { value: true, path: "thinking.display" },
      },
    ],
    [{ thinking: { type: "adaptive" } }, {}],
    [{ thinking: { type: "between_tools" } }, {}],
  ];
  for (const [fields, settings] of forms)
    assert.deepEqual(decoded({ max_tokens: 10_000, ...fields }).settings, {
      outputTokensMax: { value: 10_000, path: "max_tokens" },
      ...settings,
    });
});

test("tools added and removed in mid-conversation are applied", () => {
  const tool = (name: string) => ({ name, input_schema: { type: "object" } });
  const change = (type: string, reference: object) => ({ role: "system", content: [{ type, tool: reference }] });
  const { tools, messages } = decoded({
    tools: [tool("a"), tool("b"), tool("c")],
    messages: [
      user("hi"),
      change("tool_removal", { type: "tool_reference", name: "a" }),
      change("tool_removal", { type: "tool_reference", name: "b" }),
      change("tool_addition", { type: "tool_reference", name: "b" }),
      change("tool_addition", { type: "tool_definition", definition: tool("d") }),
    ],
  });
  assert.deepEqual(
    tools.map(({ name, path }) => [name, path]),
    [
      ["b", "tools[1]"],
      ["c", "tools[2]"],
      ["d", "messages[4].content[0].tool.definition"],
    ],
  );
  assert.deepEqual(
    messages.flatMap(({ parts }) => parts.map(({ kind }) => kind)),
    ["text"],
  );
});

test("ignored fields and values without effect are never rejected", () => {
  decoded({
    container: null,
    mcp_servers: [],
    compaction: null,
    fallbacks: "default",
    inference_geo: "global",
    billing_policy: { bill_to: "self" },
    diagnostics: { previous_message_id: "msg_1" },
    service_tier: "auto",
    speed: "fast",
    context_management: { edits: [{ type: "clear_tool_uses_20250919" }, { type: "clear_thinking_20251015" }] },
    output_config: { task_budget: { type: "tokens", total: 1 } },
    messages: [
      user("a"),
      {
        role: "assistant",
        content: [
          { type: "fallback", from: {}, to: {} },
          { type: "text", text: "b", citations: [] },
        ],
      },
    ],
  });
});

test("a field that no other dialect supports is rejected by name", () => {
  const block = (content: object, role = "user") => ({ messages: [{ role, content: [content] }] });
  const refusals: [object, string][] = [
    [{ thread: { type: "create" } }, "thread"],
    [{ container: { skills: [{}] } }, "container"],
    [{ mcp_servers: [{ name: "x" }] }, "mcp_servers"],
    [{ compaction: { type: "summarize" } }, "compaction"],
    [{ fallbacks: [{ model: "x" }] }, "fallbacks"],
    [{ inference_geo: "us" }, "inference_geo"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ thinking: { type: "sideways" } }, "thinking.type"],
    [{ output_config: { effort: "utmost" } }, "output_config.effort"],
    [{ output_config: { format: { type: "grammar" } } }, "output_config.format.type"],
    [{ tool_choice: { type: "most" } }, "tool_choice.type"],
    [{ tools: [{ type: "mcp_toolset", mcp_server_name: "s" }] }, "tools[0].type"],
    [block({ type: "image", source: { type: "file", file_id: "f" } }), "messages[0].content[0].source.file_id"],
    [
      block({ type: "image", source: { type: "base64", media_type: "image/png", data: "!" } }),
      "messages[0].content[0].source.data",
    ],
    [block({ type: "image", source: { type: "url", url: "ftp://x" } }), "messages[0].content[0].source.url"],
    [block({ type: "hologram", id: "s" }, "assistant"), "messages[0].content[0]"],
    [block({ type: "image", source: { type: "url", url: "http://x" } }, "assistant"), "messages[0].content[0].source"],
    [block({ type: "tool_use", id: "a", name: "b", input: {} }), "messages[0].content[0]"],
    [
      block({ type: "tool_result", tool_use_id: "a", content: [{ type: "browser_state" }] }),
      "messages[0].content[0].content[0]",
    ],
    [
      {
        messages: [
          user("a"),
          block({ type: "tool_addition", tool: { type: "mcp_tool_reference" } }, "system").messages[0],
        ],
      },
      "messages[1].content[0].tool.type",
    ],
  ];
  for (const [fields, param] of refusals)
    assert.equal(refusalOf(() => decoded(fields)).param, param, JSON.stringify(fields));
  const { message } = refusalOf(() => decoded({ context_management: { edits: [{ type: "compact_20260112" }] } }));
  assert.match(message, /^context_management: Extra inputs are not permitted/);
});

test("a request of this dialect survives decoding and encoding unchanged", () => {
  const body = {
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    messages: [
      user([
        { type: "text", text: "See." },
        { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
        { type: "document", source: { type: "base64", media_type: "application/pdf", data: "AAAA" }, title: "paper" },
        { type: "document", source: { type: "url", url: "https://x/y.pdf" } },
      ]),
      {
        role: "assistant",
        content: [
          { type: "text", text: "So." },
          { type: "tool_use", id: "c1", name: "look", input: { at: 1 } },
        ],
      },
      user([
        {
          type: "tool_result",
          tool_use_id: "c1",
          content: [{ type: "text", text: "no" }],
          is_error: true,
          cache_control: { type: "ephemeral" },
        },
      ]),
    ],
    tools: [
      {
        name: "look",
        description: "d",
        input_schema: { properties: { at: { type: "integer" } }, type: "object", required: ["at"] },
      },
    ],
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    stop_sequences: ["END"],
    temperature: 0.5,
    metadata: { user_id: "u" },
    max_tokens: 100,
  };
  assert.deepEqual(encoded(decoded(body)), { model: "claude-haiku-4-5", ...body });
});

test("the vendor's own reasoning is sent back in place, all other is left out", () => {
  const own = (data: string, value: string, redacted?: true): Part => ({
    kind: "reasoning",
    text: value,
    signature: { dialect: "anthropic-messages", data, ...(redacted && { redacted }) },
    path: "r",
  });
  const turn = messageOf(
    "assistant",
    { kind: "reasoning", text: "unsigned", path: "r" },
    { kind: "reasoning", text: "far", signature: { dialect: "gemini", data: "G" }, path: "r" },
    own("S", "near"),
    text("So."),
    own("R", "", true),
    call("c"),
  );
  // The simulator knows its own signatures only: what is sent is compared here alone.
  const body = JSON.parse(
    encodeRequest(
      requestOf(turn, messageOf("user", result("c")), messageOf("assistant", text("x"), own("T", "t"))),
      "sse",
      claudeOf("m"),
    ).body.toString(),
  );
  assert.deepEqual(body.messages[1].content, [
    { type: "thinking", thinking: "near", signature: "S" },
    { type: "text", text: "So." },
    { type: "redacted_thinking", data: "R" },
    { type: "tool_use", id: "c", name: "look", input: { at: 1 } },
  ]);
  assert.deepEqual(body.messages[3].content, [{ type: "text", text: "x" }]);
  assert.equal(body.stream, true);
});

test("turns are brought into the order that the format requires", () => {
  const messagesOf = (request: NeutralRequest, model?: string) =>
    (encoded(request, model).messages as { role: string; content: Body[] }[]).map(({ role, content }) => [
      role,
      ...content.map(({ text: value, type, id, tool_use_id: answered }) => value ?? `${type} ${id ?? answered}`),
    ]);
  const conversation = requestOf(
    messageOf("user", text(" "), text("there")),
    messageOf("assistant", text(""), call("a.1")),
    messageOf("assistant", call("a:1")),
    messageOf("system", text("Mind the gap.")),
    messageOf("user", text("well?"), result("a:1", text("2")), result("a.1", text("1"))),
    messageOf("assistant", call("a.1")),
    messageOf("user", result("a.1")),
    messageOf("assistant", { kind: "refusal", text: "No. ", path: "r" }),
  );
  const begin = ["user", "hi", "there"];
  const calls = ["assistant", "tool_use a_1", "tool_use a_1_2"];
  const end = [
    ["assistant", "tool_use a_1_3"],
    ["user", "tool_result a_1_3"],
    ["assistant", "No."],
  ];
  assert.deepEqual(messagesOf(conversation, "claude-sonnet-4-5"), [
    begin,
    calls,
    ["user", "tool_result a_1_2", "tool_result a_1", "<instructions>\nMind the gap.\n</instructions>", "well?"],
    ...end,
  ]);
  assert.deepEqual(messagesOf(conversation, "claude-opus-5"), [
    begin,
    calls,
    ["user", "tool_result a_1_2", "tool_result a_1", "well?"],
    ["system", "Mind the gap."],
    ...end.slice(0, -1),
    ["assistant", "No. "],
    ["user", continueText],
  ]);
  assert.deepEqual(messagesOf({ ...requestOf(), system: [text("Talk.")], messages: [] }), [["user", "Talk."]]);
});

test("a conversation that cannot be ordered or expressed is rejected by the caller's field name", () => {
  const file = (mimeType: string): Part => ({
    kind: "file",
    source: { kind: "data", mimeType, data: "AAAA" },
    path: "f",
  });
  const refusals: [NeutralRequest, string][] = [
    [requestOf(messageOf("assistant", call("a"), call("b")), messageOf("user", result("a"))), "call b"],
    [requestOf(messageOf("assistant", call("a"))), "call a"],
    [requestOf(messageOf("assistant", call("a")), messageOf("user", result("a"), result("a"))), "result a"],
    [requestOf(messageOf("user", result("a"))), "result a"],
    [{ ...requestOf(), messages: [messageOf("user", text(" "))] }, "turn of user"],
    [
      requestOf(
        messageOf("user", { kind: "audio", source: { kind: "data", mimeType: "audio/wav", data: "AAAA" }, path: "a" }),
      ),
      "a",
    ],
    [
      requestOf(
        messageOf("user", { kind: "image", source: { kind: "data", mimeType: "image/bmp", data: "AAAA" }, path: "i" }),
      ),
      "i",
    ],
    [requestOf(messageOf("user", file("application/zip"))), "f"],
  ];
  for (const [request, param] of refusals)
    assert.equal(refusalOf(() => encodeRequest(request, "whole", claudeOf("m"))).param, param);
  const begun = { ...requestOf(), messages: [messageOf("assistant", text("x")), messageOf("user", text("y"))] };
  assert.deepEqual(
    (encoded(begun).messages as { role: string }[]).map(({ role }) => role),
    ["user", "assistant", "user"],
  );
  const hints: Settings = {
    seed: { value: 1, path: "s" },
    verbosity: { value: "low", path: "v" },
    presencePenalty: { value: 1, path: "p" },
    frequencyPenalty: { value: 1, path: "f" },
  };
  assert.deepEqual(Object.keys(encoded(withSettings(hints))), ["model", "max_tokens", "messages"]);
});

test("a request is adapted to its model", () => {
  const effort = (value: Settings["effort"] extends { value: infer Value } | undefined ? Value : never): Settings => ({
    effort: { value, path: "e" },
  });
  const limit = (value: number): Settings => ({ outputTokensMax: { value, path: "m" } });
  const sampling: Settings = {
    temperature: { value: 1.5, path: "t" },
    topP: { value: 0.5, path: "p" },
    topK: { value: 5, path: "k" },
  };
  const shown = (value: boolean): Settings => ({ thinkingShown: { value, path: "s" } });
  const budget = (value: number): Settings => ({ thinkingTokensMax: { value, path: "b" } });
  const enabled = (tokens: number) => ({ type: "enabled", budget_tokens: tokens });
  const adaptive = { type: "adaptive" };
  const disabled = { type: "disabled" };
  const cases: [string, Settings, object, number?][] = [
    ["claude-opus-4-1", {}, { max_tokens: 32_000 }],
    ["claude-opus-4-1", {}, { max_tokens: 20_000 }, 20_000],
    ["claude-opus-4-1", limit(64_000), { max_tokens: 32_000 }, 32_000],
    [
      "claude-3-5-haiku-20241022",
      { ...effort("high"), ...sampling },
      { max_tokens: 4_096, temperature: 1, top_p: 0.5, top_k: 5 },
    ],
    [
      "anthropic.claude-sonnet-4-20250514-v1:0",
      { ...effort("high"), ...limit(10_000) },
      { max_tokens: 10_000, thinking: enabled(6_000) },
    ],
    [
      "claude-sonnet-4-5@20250929",
      { ...effort("low"), ...limit(10_000), ...sampling },
      { max_tokens: 10_000, thinking: enabled(1_024) },
    ],
    ["anthropic/claude-sonnet-4.5", sampling, { max_tokens: 32_000, temperature: 1, top_k: 5 }],
    ["claude-haiku-4-5", { ...effort("max"), ...limit(1_024) }, { max_tokens: 1_024 }],
    [
      "claude-haiku-4-5",
      { ...budget(9_000), ...shown(false) },
      { max_tokens: 32_000, thinking: { ...enabled(9_000), display: "omitted" } },
    ],
    ["claude-haiku-4-5", { ...budget(9_000), ...limit(5_000) }, { max_tokens: 5_000, thinking: enabled(4_999) }],
    ["claude-haiku-4-5", effort("none"), { max_tokens: 32_000 }],
    [
      "claude-opus-4-6",
      { ...effort("xhigh"), ...sampling },
      { max_tokens: 32_000, thinking: adaptive, output_config: { effort: "high" } },
    ],
    ["claude-opus-4-6", sampling, { max_tokens: 32_000, temperature: 1, top_k: 5 }],
    [
      "claude-opus-4-7",
      { ...effort("xhigh"), ...sampling },
      { max_tokens: 32_000, thinking: adaptive, output_config: { effort: "xhigh" } },
    ],
    [
      "claude-sonnet-5",
      { ...effort("minimal"), ...shown(true) },
      { max_tokens: 32_000, thinking: { ...adaptive, display: "summarized" }, output_config: { effort: "low" } },
    ],
    [
      "claude-sonnet-5",
      { ...sampling, ...shown(true) },
      { max_tokens: 32_000, thinking: { ...adaptive, display: "summarized" } },
    ],
    ["claude-sonnet-5", effort("none"), { max_tokens: 32_000, thinking: disabled }],
    ["claude-haiku-5-5", effort("none"), { max_tokens: 32_000, thinking: disabled }],
    ["claude-sonnet-5-5", effort("none"), { max_tokens: 32_000, output_config: { effort: "low" } }],
    ["claude-fable-5", effort("none"), { max_tokens: 32_000, output_config: { effort: "low" } }],
    ["claude-opus-6", budget(20_000), { max_tokens: 32_000, thinking: adaptive, output_config: { effort: "high" } }],
    [
      "my-model",
      { ...effort("high"), ...limit(9) },
      { max_tokens: 9, thinking: adaptive, output_config: { effort: "high" } },
    ],
    ["my-model", sampling, { max_tokens: 4_096, temperature: 1, top_p: 0.5, top_k: 5 }],
  ];
  for (const [model, settings, expected, outputTokensMax] of cases) {
    const { messages: _, ...body } = encoded(withSettings(settings), model, outputTokensMax);
    assert.deepEqual(body, { model, ...expected }, `${model} ${JSON.stringify(settings)}`);
  }
});

test("thinking is left out with a forced call and in a turn that began without it, where the model requires that", () => {
  const settings: Settings = { effort: { value: "medium", path: "e" }, outputTokensMax: { value: 8_000, path: "m" } };
  const forced = (model: string, fields: Partial<NeutralRequest> = {}) => {
    const { thinking, tool_choice: choice } = encoded(
      withSettings(settings, { tools: [look], toolChoice: { mode: "required", path: "c" }, ...fields }),
      model,
    );
    return [thinking, choice];
  };
  assert.deepEqual(forced("claude-haiku-4-5"), [undefined, { type: "any" }]);
  assert.deepEqual(forced("claude-sonnet-5"), [{ type: "disabled" }, { type: "any" }]);
  assert.deepEqual(forced("claude-opus-5-5"), [{ type: "adaptive" }, { type: "auto" }]);
  const loop = [messageOf("user", text("hi")), messageOf("assistant", call("a")), messageOf("user", result("a"))];
  assert.equal(
    encoded(withSettings(settings, { messages: loop, tools: [look] }), "claude-haiku-4-5").thinking,
    undefined,
  );
  assert.deepEqual(
    encoded(
      withSettings(settings, { messages: [...loop, messageOf("user", text("and?"))], tools: [look] }),
      "claude-haiku-4-5",
    ).thinking,
    {
      type: "enabled",
      budget_tokens: 2_400,
    },
  );
});

test("tools and tool choice are encoded", () => {
  const free: Tool = { name: "free", callerName: "free", takesText: true, path: "t" };
  const bare: Tool = {
    name: "bare",
    callerName: "bare",
    strict: true,
    parameters: { type: "object", additionalProperties: true },
    path: "t",
  };
  const strict: Tool = {
    ...look,
    name: "strict",
    strict: true,
    parameters: { type: "object", properties: { n: { type: "integer", minimum: 1 } } },
  };
  const tools = [look, free, bare, strict];
  const choiceFor = (toolChoice: NeutralRequest["toolChoice"], settings: Settings = {}) => {
    const { tool_choice: choice, tools: sent } = encoded(
      withSettings(settings, { tools, ...(toolChoice && { toolChoice }) }),
    );
    return [choice, (sent as Body[]).map(({ name }) => name).join()];
  };
  assert.deepEqual(encoded(withSettings({}, { tools })).tools, [
    { name: "look", input_schema: look.parameters },
    {
      name: "free",
      input_schema: textToolParameters,
    },
    { name: "bare", input_schema: { type: "object", properties: {}, additionalProperties: true } },
    {
      name: "strict",
      input_schema: {
        type: "object",
        properties: { n: { type: "integer", description: "{minimum: 1}" } },
        additionalProperties: false,
      },
      strict: true,
    },
  ]);
  const all = "look,free,bare,strict";
  assert.deepEqual(choiceFor(undefined), [undefined, all]);
  assert.deepEqual(choiceFor(undefined, { parallelCalls: { value: false, path: "p" } }), [
    { type: "auto", disable_parallel_tool_use: true },
    all,
  ]);
  assert.deepEqual(choiceFor({ mode: "none", path: "c" }, { parallelCalls: { value: false, path: "p" } }), [
    { type: "none" },
    all,
  ]);
  assert.deepEqual(choiceFor({ mode: "required", only: ["free"], path: "c" }), [
    { type: "tool", name: "free" },
    "free",
  ]);
  assert.deepEqual(choiceFor({ mode: "required", only: ["free", "bare"], path: "c" }), [{ type: "any" }, "free,bare"]);
  assert.deepEqual(choiceFor({ mode: "auto", only: ["look"], path: "c" }), [{ type: "auto" }, "look"]);
  const wire = encoded(requestOf(messageOf("assistant", call("a")), messageOf("user", result("a"))));
  assert.deepEqual(
    [wire.tools, wire.tool_choice],
    [[{ name: "look", input_schema: { type: "object", properties: {} } }], { type: "none" }],
  );
});

test("calls whose input is not an object, and failures without content, are encoded", () => {
  const broken: Part = { kind: "call", id: "a", name: "look", input: '{"at":', path: "c" };
  const failed: Part = { kind: "result", callId: "a", name: "look", content: [], isError: true, path: "r" };
  const { messages } = encoded(requestOf(messageOf("assistant", broken), messageOf("user", failed)));
  assert.deepEqual((messages as Body[]).slice(1), [
    { role: "assistant", content: [{ type: "tool_use", id: "a", name: "look", input: { _raw: '{"at":' } }] },
    user([{ type: "tool_result", tool_use_id: "a", content: "The call failed.", is_error: true }]),
  ]);
});

test("only the last four cache breakpoints stay, long-lived ones first", () => {
  const marked = (value: string, ttl: "short" | "long"): TextPart => ({ ...text(value), cache: { ttl } });
  const body = encoded({
    ...requestOf(messageOf("user", marked("c", "long"), marked("d", "short"), marked("e", "long"))),
    system: [marked("a", "long"), marked("b", "long")],
    tools: [{ ...look, cache: { ttl: "long" } }],
  });
  const marks = [
    ...(body.tools as Body[]),
    ...(body.system as Body[]),
    ...(body.messages as { content: Body[] }[]).flatMap(({ content }) => content),
  ];
  assert.deepEqual(
    marks.map(({ cache_control: mark }) => (mark === undefined ? "" : ((mark as Body).ttl ?? "5m"))),
    ["", "", "1h", "", "1h", "5m", "5m"],
  );
});

test("a format is enforced if possible, otherwise it becomes an instruction", () => {
  const format = (value: NonNullable<Settings["format"]>["value"], model?: string) => {
    const { output_config: config, system } = encoded(withSettings({ format: { value, path: "f" } }), model);
    return [config, (system as Body[] | undefined)?.map(({ text: systemText }) => systemText).join()];
  };
  const schema = { type: "object", properties: { a: { type: "string" } } };
  const enforced = { format: { type: "json_schema", schema: { ...schema, additionalProperties: false } } };
  assert.deepEqual(format({ kind: "schema", schema, name: "n" }), [enforced, undefined]);
  const [none, words] = format({ kind: "schema", schema }, "claude-3-7-sonnet");
  assert.ok(none === undefined && String(words).endsWith(JSON.stringify(schema)));
  assert.match(String(format({ kind: "json" })[1]), /one JSON object and nothing else/);
});

test("strict tools and the format stay within the bounds of a request together", () => {
  const nullable = { anyOf: [{ type: "string" }, { type: "null" }] };
  const schemaOf = (values: number, optional = 0) => ({
    type: "object",
    properties: Object.fromEntries(
      Array.from({ length: values + optional }, (_, at) => [`p${at}`, at < values ? nullable : { type: "string" }]),
    ),
    required: Array.from({ length: values }, (_, at) => `p${at}`),
    additionalProperties: false,
  });
  const strictOf = (schemas: JsonObject[], format?: JsonObject) => {
    const tools = schemas.map((parameters, at) => ({ ...look, name: `t${at}`, parameters, strict: true }));
    const settings: Settings =
      format === undefined ? {} : { format: { value: { kind: "schema", schema: format }, path: "f" } };
    const { tools: sent, output_config: config } = encoded(withSettings(settings, { tools }));
    return [(sent as Body[]).filter(({ strict }) => strict === true).map(({ name }) => name), config !== undefined];
  };
  const times = (count: number, schema: JsonObject) => Array.from({ length: count }, () => schema);
  const names = (count: number) => Array.from({ length: count }, (_, at) => `t${at}`);
  assert.deepEqual(strictOf(times(25, schemaOf(0))), [names(20), false]);
  assert.deepEqual(strictOf(times(10, schemaOf(2))), [names(8), false]);
  assert.deepEqual(strictOf(times(10, schemaOf(0, 5))), [names(4), false]);
  // A large tool leaves the others strict, and the format comes first.
  assert.deepEqual(strictOf([schemaOf(1), schemaOf(17), schemaOf(15), schemaOf(1)]), [["t0", "t2"], false]);
  assert.deepEqual(strictOf([schemaOf(3), schemaOf(2)], schemaOf(14)), [["t1"], true]);
});

test("schemas are written in the vendor's subset, or not at all", () => {
  const node = { type: "object", properties: { next: { $ref: "#/$defs/node" } } };
  const cases: [Record<string, unknown>, unknown][] = [
    [
      {
        $schema: "x",
        type: "array",
        minItems: 3,
        items: { oneOf: [{ type: "string", format: "uuid" }, { const: 1 }] },
        description: "d",
      },
      {
        type: "array",
        items: { anyOf: [{ type: "string", format: "uuid" }, { const: 1 }] },
        description: "d\n\n{minItems: 3}",
      },
    ],
    [
      { $ref: "#/$defs/a", $defs: { a: { enum: ["x"] } } },
      { $ref: "#/$defs/a", $defs: { a: { enum: ["x"] } } },
    ],
    [{ $ref: "#/$defs/node", $defs: { node } }, undefined],
    [{ type: "object", properties: { self: { $ref: "#" } } }, undefined],
    [{ type: "object" }, undefined],
    [{ type: "object", additionalProperties: { type: "string" } }, undefined],
    [{ type: "object", properties: { anything: {} } }, undefined],
    [
      { type: ["object", "null"], additionalProperties: false },
      { type: ["object", "null"], additionalProperties: false },
    ],
  ];
  for (const [schema, expected] of cases)
    assert.deepEqual(structuredSchemaOf(schema, strictBounds()), expected, JSON.stringify(schema));
});

test("tokens are counted for the conversation, without the fields that only affect its answer", () => {
  assert.ok(tokenCount);
  const conversation = tokenCount.conversationOf({ model: "m", messages: [user("hi")], system: "s", tomorrow: 1 });
  assert.equal(decodeRequest({ body: conversation, framing: "whole" }).messages.length, 1);
  const foreign = {
    role: "assistant",
    content: [{ type: "thinking", thinking: "x", signature: wrappedSignatureOf({ dialect: "gemini", data: "G" }) }],
  };
  const { path, body } = tokenCount.requestOf(
    { ...conversation, stream: true, messages: [user("hi"), foreign] },
    claudeOf("theirs"),
  );
  assert.equal(path, "/messages/count_tokens");
  assert.deepEqual(JSON.parse(body.toString()), { model: "theirs", messages: [user("hi")], system: "s", tomorrow: 1 });
  assert.deepEqual(
    [tokenCount.countIn({ input_tokens: 7 }), tokenCount.countIn({ input_tokens: "7" }), tokenCount.answerOf(7)],
    [7, undefined, '{"input_tokens":7}'],
  );
});

test("any conversation is encoded in an accepted order, or rejected by name", () => {
  const id = fc.constantFrom("a", "b", "c.d");
  const block = fc.oneof(
    fc.constantFrom("", " ", "x", "x ").map((value) => ({ type: "text", text: value })),
    id.map((value) => ({ type: "tool_use", id: value, name: "look", input: {} })),
    fc.record({ type: fc.constant("tool_result"), tool_use_id: id, content: fc.constantFrom("", "seen") }),
    fc.constant({ type: "thinking", thinking: "x", signature: wrappedSignatureOf({ dialect: "gemini", data: "G" }) }),
    fc.constant({ type: "image", source: { type: "url", url: "http://x/y.png" } }),
  );
  const message = fc.record({
    role: fc.constantFrom("user", "assistant", "system"),
    content: fc.oneof(fc.constantFrom("", "x"), fc.array(block, { maxLength: 3 })),
  });
  const answered = id.map((value) => [
    { role: "assistant", content: [{ type: "tool_use", id: value, name: "look", input: {} }] },
    user([{ type: "tool_result", tool_use_id: value }]),
  ]);
  const conversation = fc
    .array(
      fc.oneof(
        answered,
        message.map((one) => [one]),
      ),
      { maxLength: 5 },
    )
    .map((turns) => [user("hi"), ...turns.flat()]);
  const fields = fc.record({
    model: fc.constantFrom("claude-haiku-4-5", "claude-sonnet-5", "claude-opus-5-5", "other"),
    choice: fc.constantFrom("auto", "any", "none"),
    thinking: fc.constantFrom({ type: "adaptive" }, { type: "enabled", budget_tokens: 1_024 }, { type: "disabled" }),
  });
  let sent = 0;
  fc.assert(
    fc.property(conversation, fields, (messages, { model, choice, thinking }) => {
      const body = {
        messages,
        thinking,
        tools: [{ name: "look", input_schema: { type: "object" } }],
        tool_choice: { type: choice },
        max_tokens: 4_000,
      };
      try {
        encoded(decoded(body), model);
        sent++;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        assert.ok(error.message.startsWith(error.param));
      }
    }),
    { numRuns: 300 },
  );
  assert.ok(sent > 50, `${sent} were sent`);
});

test("an assistant's final text has no trailing white space, even before an instruction", () => {
  const messages = [user("hi"), { role: "assistant", content: "x " }, { role: "system", content: "y" }];
  const body = JSON.stringify(encoded(decoded({ messages, max_tokens: 100 }), "claude-opus-5-5"));
  assert.match(body, /"x"/);
  assert.doesNotMatch(body, /"x "/);
});

test("citations that no other model reports are announced to the caller", () => {
  const decodedWith = (block: object) =>
    anthropicMessages.decodeRequest({
      framing: "whole",
      body: { model: "m", max_tokens: 10, messages: [{ role: "user", content: [{ type: "text", text: "a" }, block] }] },
    }).warnings;
  const source = { type: "text", media_type: "text/plain", data: "b" };
  const cited = { type: "document", source, citations: { enabled: true } };
  const result = { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "c" }] };
  assert.match(String(decodedWith(cited)), /^messages\[0\]\.content\[1\]\.citations asks for citations/);
  assert.match(String(decodedWith({ ...result, citations: { enabled: true } })), /citations/);
  const nested = { type: "tool_result", tool_use_id: "x", content: [cited] };
  assert.match(String(decodedWith(nested)), /^messages\[0\]\.content\[1\]\.content\[0\]\.citations/);
  for (const silent of [{ ...cited, citations: { enabled: false } }, { ...cited, citations: null }, result])
    assert.equal(decodedWith(silent), undefined);
});
