import assert from "node:assert/strict";
import { test } from "node:test";
import { messagesRequestSchema, tokenCountRequestSchema } from "#dialects/anthropic-messages/schema.ts";
import { statefulFieldIn } from "#dialects/anthropic-messages/stateless.ts";
import { faultIn } from "../../../../apps/ingress/request/validation.ts";

const user = (content: unknown) => ({ role: "user", content });
const least = { model: "m", max_tokens: 16, messages: [user("hi")] };

/** The field at fault; undefined for none. The values are those that JSON can say. */
function faultOf(fields: object, url = "/messages"): string | undefined {
  const body: unknown = JSON.parse(JSON.stringify(url === "/count" ? fields : { ...least, ...fields }));
  const fault = faultIn(url === "/count" ? tokenCountRequestSchema : messagesRequestSchema, body);
  return fault === undefined ? undefined : (fault.param ?? "?");
}

test("clients' requests and unknown fields are accepted", async () => {
  const accepted: object[] = [
    {},
    {
      max_tokens: 0,
      system: "be brief",
      stream: true,
      temperature: 0,
      top_p: 1,
      top_k: 0,
      stop_sequences: [],
      metadata: { user_id: null },
    },
    {
      system: [{ type: "text", text: "", cache_control: { type: "ephemeral", ttl: "1h" } }],
      cache_control: { type: "ephemeral" },
      metadata: null,
    },
    {
      messages: [
        user([{ type: "text", text: "a" }]),
        { role: "system", content: [{ type: "text", text: "b" }], output_config: { effort: "medium" } },
        { role: "system", output_config: { effort: "low" } },
        {
          role: "system",
          content: [{ type: "tool_addition", tool: { type: "tool_reference", name: "x" } }],
          clear_at: "never",
        },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "s" },
            { type: "tool_use", id: "a", name: "x", input: {} },
          ],
        },
        user([{ type: "tool_result", tool_use_id: "a" }]),
      ],
      thinking: { type: "adaptive", display: "omitted" },
      context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
      output_config: { effort: "medium" },
      tools: [
        { name: "x", input_schema: { type: "object" }, defer_loading: true },
        { type: "web_search_20260318", name: "web_search" },
        { type: "browser_toolset_20260801" },
      ],
    },
    {
      thinking: { type: "enabled", budget_tokens: 1_024 },
      tool_choice: { type: "tool", name: "x", disable_parallel_tool_use: true },
    },
    { thinking: { type: "enabled" } },
    {
      thinking: { type: "between_tools" },
      output_config: null,
      output_format: { type: "json_schema", schema: {} },
      service_tier: "standard_only",
    },
    { messages: [user([{ type: "hologram", data: 1 }])], thought: { up: "tomorrow" } },
  ];
  for (const fields of accepted) assert.equal(await faultOf(fields), undefined, JSON.stringify(fields));
  assert.equal(await faultOf({ model: "m", messages: [user("hi")] }, "/count"), undefined);
});

test("an error names its field", async () => {
  const block = (content: object) => ({ messages: [user([content])] });
  const faults: [object, string][] = [
    [{ model: 1 }, "model"],
    [{ max_tokens: undefined }, "max_tokens"],
    [{ max_tokens: -1 }, "max_tokens"],
    [{ max_tokens: 1.5 }, "max_tokens"],
    [{ max_tokens: "16" }, "max_tokens"],
    [{ messages: [] }, "messages"],
    [{ messages: "hi" }, "messages"],
    [{ messages: [{ role: "tool", content: "" }] }, "messages[0].role"],
    [{ messages: [{ role: "user" }] }, "messages[0].content"],
    [{ messages: [user(null)] }, "messages[0].content"],
    [{ messages: [user("a"), user([{ text: "a" }])] }, "messages[1].content[0].type"],
    [block({ type: "text" }), "messages[0].content[0].text"],
    [block({ type: "text", text: 1 }), "messages[0].content[0].text"],
    [block({ type: "text", text: "", cache_control: { ttl: "5m" } }), "messages[0].content[0].cache_control.type"],
    [block({ type: "image" }), "messages[0].content[0].source"],
    [block({ type: "image", source: { type: "base64", data: "aaaa" } }), "messages[0].content[0].source.media_type"],
    [block({ type: "image", source: { type: "url" } }), "messages[0].content[0].source.url"],
    [block({ type: "document", source: { type: "file" } }), "messages[0].content[0].source.file_id"],
    [block({ type: "search_result", source: "a", title: "b" }), "messages[0].content[0].content"],
    [block({ type: "tool_result" }), "messages[0].content[0].tool_use_id"],
    [
      block({ type: "tool_result", tool_use_id: "a", content: [{ type: "image" }] }),
      "messages[0].content[0].content[0].source",
    ],
    [block({ type: "tool_use", id: "a", name: "b" }), "messages[0].content[0].input"],
    [block({ type: "redacted_thinking" }), "messages[0].content[0].data"],
    [{ system: [{ type: "image" }] }, "system[0].text"],
    [{ system: {} }, "system"],
    [{ temperature: 1.1 }, "temperature"],
    [{ top_p: -0.1 }, "top_p"],
    [{ top_k: 1.5 }, "top_k"],
    [{ stop_sequences: "x" }, "stop_sequences"],
    [{ stop_sequences: [1] }, "stop_sequences[0]"],
    [{ stream: "yes" }, "stream"],
    [{ metadata: { user_id: 1 } }, "metadata.user_id"],
    [{ thinking: {} }, "thinking.type"],
    [{ thinking: { type: "enabled", budget_tokens: 1_023 } }, "thinking.budget_tokens"],
    [{ tool_choice: "auto" }, "tool_choice"],
    [{ tool_choice: { type: "tool" } }, "tool_choice.name"],
    [{ tools: {} }, "tools"],
    [{ tools: [{ input_schema: {} }] }, "tools[0].name"],
    [{ tools: [{ name: "x" }] }, "tools[0].input_schema"],
    [{ tools: [{ name: "x", input_schema: "string" }] }, "tools[0].input_schema"],
    [{ tools: [{ name: "a.b", input_schema: {} }] }, "tools[0].name"],
    [{ tools: [{ type: "custom", name: "x".repeat(129), input_schema: {} }] }, "tools[0].name"],
    [{ output_config: { effort: 1 } }, "output_config.effort"],
    [{ output_config: { format: { type: "json_schema" } } }, "output_config.format.schema"],
    [{ context_management: { edits: [{}] } }, "context_management.edits[0].type"],
  ];
  for (const [fields, field] of faults) assert.equal(await faultOf(fields), field, JSON.stringify(fields));
  assert.equal(await faultOf({ model: "m" }, "/count"), "messages");
});

test("references to a vendor's storage are found in every request, and threads get the code that their clients know", () => {
  const image = { type: "image", source: { type: "file", file_id: "f" } };
  const fields: [object, string][] = [
    [{ container: "c" }, "container"],
    [{ container: { id: "c", skills: [] } }, "container.id"],
    [{ messages: [user([image])] }, "messages[0].content[0].source.file_id"],
    [
      { messages: [user("a"), user([{ type: "tool_result", content: [{ type: "text" }, image] }])] },
      "messages[1].content[0].content[1].source.file_id",
    ],
    [{ messages: [user([{ type: "container_upload", file_id: "f" }])] }, "messages[0].content[0].file_id"],
    [
      { messages: [user([{ type: "tool_result", content: [{ type: "tool_result", content: [image] }] }])] },
      "messages[0].content[0].content[0].content[0].source.file_id",
    ],
  ];
  for (const [body, param] of fields) assert.equal(statefulFieldIn(body as Record<string, unknown>)?.param, param);
  const { param, upstreamCode } = statefulFieldIn({ ...least, thread: { type: "create" } }) ?? {};
  assert.deepEqual({ param, upstreamCode }, { param: "thread", upstreamCode: "thread_unsupported_request" });
  for (const body of [{ ...least, thread: null, container: null }, {}, { messages: [null, { content: [null, 1] }] }])
    assert.equal(statefulFieldIn(body as Record<string, unknown>), undefined);
});
