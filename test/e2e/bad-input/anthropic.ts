/** Rich requests of Anthropic's messages. */
import { modelOf } from "../../clients/support.ts";
import { png } from "../../support/png.ts";
import { modelsFor, pdf, type RichRequest, schema } from "./rich-request.ts";

export const messages: RichRequest = {
  dialect: "anthropic-messages",
  pathOf: () => "/v1/messages",
  models: modelsFor("anthropic-messages"),
  without: {
    [modelOf("openai-responses")]: ["stop_sequences"],
    [modelOf("anthropic-messages")]: ["messages[0].content[5]"],
  },
  opaque: /(^|\.)(input|input_schema|schema|input_examples)\b./,
  alsoGood:
    /^((system|messages\[\d\]\.content|messages\[2\]\.content\[0\]\.content|messages\[0\]\.content\[4\]\.source\.content) string|context_management\.edits\[0\]\.keep object|messages\[1\]\.content\[1\]\.input \w+|messages\[2\]\.content\[0\]\.content(\[\d\])? \w+|tools\[\d\]\.input_schema (array|boolean))$/,
  bodyOf: (model) => ({
    model,
    max_tokens: 4096,
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "5m" } }],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?", cache_control: { type: "ephemeral" } },
          { type: "image", source: { type: "base64", media_type: "image/png", data: png.toString("base64") } },
          {
            type: "document",
            source: { type: "base64", media_type: "application/pdf", data: pdf },
            title: "a.pdf",
            context: "A file.",
            citations: { enabled: false },
          },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "some text" } },
          { type: "document", source: { type: "content", content: [{ type: "text", text: "some content" }] } },
          {
            type: "search_result",
            source: "https://example.com",
            title: "Example",
            content: [{ type: "text", text: "found" }],
            citations: { enabled: false },
          },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Look it up." },
          { type: "tool_use", id: "call_1", name: "get_weather", input: { city: "Paris" } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_1", content: [{ type: "text", text: "Sunny" }], is_error: false },
          { type: "text", text: "Well?" },
        ],
      },
      { role: "assistant", content: "Sunny." },
      { role: "user", content: "Thanks" },
    ],
    tools: [
      {
        name: "get_weather",
        type: "custom",
        description: "Says the weather.",
        input_schema: schema,
        strict: true,
        cache_control: { type: "ephemeral" },
      },
      {
        name: "get_time",
        description: "Says the time.",
        input_schema: { type: "object" },
        defer_loading: false,
        eager_input_streaming: true,
        input_examples: [{}],
        allowed_callers: ["direct"],
      },
    ],
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    stop_sequences: ["END"],
    stream: false,
    temperature: 1,
    top_p: 0.9,
    top_k: 40,
    metadata: { user_id: "u1" },
    service_tier: "auto",
    thinking: { type: "disabled" },
    output_config: { effort: "low", format: { type: "json_schema", schema } },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    inference_geo: "global",
    speed: "standard",
  }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["max_tokens", -1, 1.5, 1e300],
    ["messages", []],
    ["messages[0].role", "robot"],
    ["messages[0].content[1].source.data", ""],
    ["messages[0].content[1].source", { type: "file", file_id: "file_1" }],
    ["messages[1].content[1].id", ""],
    ["system[0].type", "image"],
    ["temperature", 1.1, -0.1],
    ["top_p", 1.1, -0.1],
    ["top_k", -1, 1.5],
    ["thinking", { type: "enabled", budget_tokens: 1_023 }, {}],
    ["tool_choice", { type: "tool" }, {}],
    ["tools[0].name", "", "x".repeat(129), "d\u00e9j\u00e0 vu"],
    ["output_config", { format: { type: "json_schema" } }],
    ["container", "container_1"],
    ["thread", { type: "create" }],
  ],
  unsuitable: [
    ["thinking", { type: "weird" }, { type: "adaptive", display: "loud" }, { type: "enabled", budget_tokens: 5_000 }],
    ["output_config", { effort: "extreme" }, { format: { type: "yaml" } }],
    ["tool_choice", { type: "sometimes" }, { type: "tool", name: "nobody" }],
    ["tools[0].type", "weird"],
    ["messages[0].content[0].type", "hologram"],
    ["messages[0].content[1].source", { type: "url", url: "ftp://x/y" }, { type: "weird" }],
    ["messages[0].content[1].source.data", "@@@"],
    ["mcp_servers", [{ type: "url", url: "https://example.com", name: "x" }]],
    ["inference_geo", "mars"],
    ["context_management", { edits: [{ type: "weird" }] }],
    ["max_tokens", 0],
  ],
};

const answerFields = [
  "max_tokens",
  "stop_sequences",
  "stream",
  "temperature",
  "top_p",
  "top_k",
  "metadata",
  "service_tier",
  "inference_geo",
];
const isCounted = ([path]: readonly [string, ...unknown[]]) =>
  !answerFields.includes(path) && path !== "container" && path !== "thinking";

export const countTokens: RichRequest = {
  ...messages,
  pathOf: () => "/v1/messages/count_tokens",
  models: messages.models.slice(0, 2),
  bodyOf: (model) =>
    Object.fromEntries(Object.entries(messages.bodyOf(model)).filter(([name]) => !answerFields.includes(name))),
  without: { [modelOf("anthropic-messages")]: ["messages[0].content[5]"] },
  outOfRange: messages.outOfRange.filter(isCounted),
  unsuitable: (messages.unsuitable ?? []).filter(isCounted),
};
