/** Which refusals of upstreams lead to a repaired request, and what the repairs change. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { repairedBytes, repairedRequest, repairedTarget } from "#dialects/relay/repaired.ts";
import { type Repair, repairOf } from "#dialects/repairs/repairs.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { targetOf } from "../../../support/target.ts";

type Plain = Exclude<Repair, { kind: "omit" }>["kind"];

/** Real messages, each with the place where it was reported or documented. */
const refusals: readonly [Exclude<Repair, { kind: "omit" }>["kind"] | undefined, number, string | object, string][] = [
  ["history", 400, "Required property 'annotations' is missing", "github.com/BerriAI/litellm/issues/35213"],
  [
    "history",
    400,
    "240 validation errors:\n  {'type': 'string_type', 'loc': ('body', 'input', 'str'), 'msg': 'Input should be a valid string', 'input': [{'role': 'user'}]}\n  {'type': 'missing'}",
    "github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/138",
  ],
  [
    "history",
    400,
    "Invalid value: 'input_json_delta'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', 'file'.",
    "github.com/langchain-ai/langchainjs/pull/11245",
  ],
  [
    "history",
    400,
    "Failed to deserialize the JSON body into the target type: messages[44]: unknown variant `reasoning`, expected `text`",
    "github.com/langchain-ai/openwiki/issues/231",
  ],
  [
    "history",
    400,
    "Failed to deserialize the JSON body into the target type: messages[3]: unknown variant `tool_call`, expected `text`",
    "github.com/langchain-ai/langchainjs/pull/11177",
  ],
  [
    "history",
    400,
    "Invalid value: 'input_text'. Supported values are: 'text','image_url','input_audio','refusal','audio', and 'file'.",
    "github.com/agentscope-ai/QwenPaw/issues/6803",
  ],
  [
    "history",
    400,
    "Invalid value: 'image'. Supported values are: 'text' and 'image_url'.",
    "github.com/aallam/openai-kotlin/issues/320",
  ],
  [
    "history",
    400,
    "Invalid value: 'image_url'. Supported values are: 'input_text', 'input_image', 'output_text', 'refusal', 'input_file', 'computer_screenshot', 'summary_text', and 'encrypted_content'.",
    "github.com/langchain-ai/langchainjs/issues/11248",
  ],
  [
    "history",
    400,
    "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', 'input_audio', 'output_text', 'refusal', 'input_file', 'computer_screenshot', 'summary_text', and 'encrypted_content'.",
    "github.com/MervinPraison/PraisonAI/issues/3934",
  ],
  [
    "history",
    400,
    "Missing required parameter: 'messages[2].content'.",
    "github.com/latitude-dev/latitude-llm/issues/810",
  ],
  [
    "history",
    400,
    "Invalid value for 'content': expected a string, got null.",
    "github.com/run-llama/llama_index/issues/17555",
  ],
  [
    "history",
    400,
    "Invalid type for 'messages[1].content': expected one of a string or array of objects, but got null instead.",
    "platform.openai.com",
  ],
  [
    "history",
    400,
    "Invalid 'messages[2].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.",
    "github.com/openai/openai-python/issues/2061",
  ],
  [
    "history",
    400,
    "Invalid assistant message: content or tool_calls must be set",
    "github.com/carlrobertoh/ProxyAI/issues/834",
  ],
  ["history", 400, "invalid message content type: <nil>", "github.com/SAIL-Research-Lab/cheetahclaws/pull/72"],
  [
    "history",
    400,
    "Empty tool_calls is not supported in message",
    "github.com/smallmain/vscode-unify-chat-provider/pull/65",
  ],
  [
    "companions",
    400,
    "Conflicting authenticated continuation identities",
    "github.com/NousResearch/hermes-agent/pull/106718",
  ],
  [
    "companions",
    400,
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "github.com/ericc-ch/copilot-api/pull/166",
  ],
  [
    "companions",
    400,
    'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
    "github.com/anomalyco/opencode/issues/48637",
  ],
  [
    "companions",
    400,
    "messages.1.content.19: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.",
    "github.com/anthropics/claude-code/issues/63412",
  ],
  [
    "companions",
    400,
    "messages.219.content.0.thinking.signature: Field required",
    "github.com/openclaw/openclaw/issues/10775",
  ],
  [
    "companions",
    400,
    "messages.3.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks).",
    "github.com/anthropics/claude-code/issues/10823",
  ],
  [
    "companions",
    400,
    {
      error: {
        message: "The encrypted content gAAA...DQ== could not be verified.",
        type: "invalid_request_error",
        param: null,
        code: "invalid_encrypted_content",
      },
    },
    "github.com/openai/codex/issues/8145",
  ],
  [
    "companions",
    400,
    "Item 'fc_68a' of type 'function_call' was provided without its required 'reasoning' item: 'rs_68a'.",
    "github.com/openai/openai-python/issues/2561",
  ],
  [
    "companions",
    400,
    { error: { code: 400, message: "Corrupted thought signature.", status: "INVALID_ARGUMENT" } },
    "github.com/google-gemini/gemini-cli/issues/13467",
  ],
  [
    "companions",
    400,
    { error: { code: 400, message: "Invalid thought signature.", status: "INVALID_ARGUMENT" } },
    "github.com/lbjlaq/Antigravity-Manager/pull/3342",
  ],
  [
    "signatures",
    400,
    {
      error: {
        code: 400,
        message:
          "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly",
        status: "INVALID_ARGUMENT",
      },
    },
    "github.com/BigPizzaV3/CodexPlusPlus/issues/332",
  ],
  [
    "companions",
    400,
    "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
    "console.groq.com",
  ],
  [
    "companions",
    400,
    "Additional properties are not allowed ('reasoning_content' was unexpected) - 'messages.1'",
    "platform.openai.com",
  ],
  [
    "companions",
    422,
    {
      detail: [
        {
          type: "extra_forbidden",
          loc: ["body", "messages", 2, "assistant", "reasoning_content"],
          msg: "Extra inputs are not permitted",
        },
      ],
    },
    "docs.mistral.ai",
  ],
  [
    "item-ids",
    404,
    "Item with id 'rs_68af' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
    "github.com/openai/openai-agents-python/issues/919",
  ],
  [
    "item-ids",
    400,
    "[ApiIdParam] [input[371].id] [invalid_id_prefix] Invalid 'input[371].id': '019f629b-43ee-7a82-acb1-3071dbffbdad'. Expected an ID that begins with 'msg'.",
    "github.com/openai/codex/issues/33176",
  ],
  [
    "item-ids",
    400,
    "Invalid 'input[91].id': 'fc_7d85c66763c84ceba5db1c77'. Expected an ID that begins with 'ctc'.",
    "github.com/Alishahryar1/free-claude-code/issues/1826",
  ],
  [
    "item-ids",
    400,
    "Invalid 'input[100].id': 'msg-proxy-2-7d1e132ded554149'. Expected an ID that contains letters, numbers, underscores, or dashes, but this value contained additional characters.",
    "github.com/ranxianglei/billion-context/pull/1054",
  ],
  [
    "item-ids",
    400,
    "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with length 408 instead.",
    "github.com/NousResearch/hermes-agent/pull/62225",
  ],
  [
    "item-ids",
    400,
    "[ApiIdParam] [input[222].id] [string_above_max_length] Invalid `input[222].id`: string too long. Expected a string with maximum length 64, but got a string with length 84 instead.",
    "github.com/router-for-me/CLIProxyAPI/issues/4401",
  ],
  [
    "tools",
    422,
    "unknown variant `namespace`, expected one of `function`, `web_search`, `x_search`, `image_generation`, `collections_search`, `file_search`, `code_execution`, `code_interpreter`, `mcp`, `shell`",
    "github.com/maximhq/bifrost/issues/5428",
  ],
  ["tools", 400, "unsupported_tool_type: 'namespace'", "github.com/raullenchai/Rapid-MLX/pull/993"],
  [
    "tools",
    400,
    "tools[0].type: unknown variant 'custom', expected 'function'",
    "github.com/BerriAI/litellm/issues/27276",
  ],
  [
    "results",
    400,
    "Invalid 'messages[234]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.",
    "github.com/OpenHands/OpenHands/issues/7700",
  ],
  ["results", 400, "Output of tool call should be 'Input text'", "github.com/ggml-org/llama.cpp/issues/23542"],
  [
    "results",
    400,
    "Invalid 'messages' in payload. Please check the structure of your 'messages' and try again.",
    "github.com/QwenLM/qwen-code/issues/3616",
  ],
  [
    "tools",
    400,
    "Unsupported Responses API input item type: 'additional_tools' None",
    "github.com/mxyhi/token_proxy/issues/307",
  ],
  ["tools", 400, 'input[1]: unknown input item type: "agent_message"', "github.com/ollama/ollama/issues/18286"],
  [
    "tools",
    400,
    "malformed request: failed to parse JSON for /v1/responses: cannot unmarshal unknown input type: additional_tools",
    "github.com/envoyproxy/ai-gateway/issues/2586",
  ],
  [
    "tools",
    422,
    "Failed to deserialize the JSON body into the target type: data did not match any variant of untagged enum ModelInput",
    "github.com/router-for-me/CLIProxyAPI/issues/3704",
  ],
  [
    "tools",
    400,
    'Only `type:"function"` tools are supported on this endpoint. Built-in tools (web_search, file_search, code_interpreter, computer_use, mcp) are not executed here.',
    "github.com/CommandCodeAI/command-code/issues/885",
  ],
  [
    "companions",
    400,
    'invalid_request_error: invalid_request_error: input.12: item type "compaction" is not supported',
    "github.com/openai/codex/issues/45401",
  ],
  ["companions", 400, "Invalid input type 'compaction' at index 56", "github.com/james-6-23/codex2api/issues/93"],
  [
    "companions",
    400,
    "[ItemParam] [input[4]] [invalid_enum_value] Invalid value: 'context_compaction'. Supported values are: 'additional_tools', 'apply_patch_call', 'compaction', 'compaction_trigger', 'custom_tool_call', and 'web_search_call'.",
    "github.com/openai/codex/issues/27423",
  ],
  [
    "tools",
    400,
    "Invalid value: 'web_search'. Supported values are: 'function' and 'custom'.",
    "github.com/langchain-ai/langchain-litellm/issues/197",
  ],
  [
    "placeholders",
    400,
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "github.com/earendil-works/pi/issues/3636",
  ],
  [
    "placeholders",
    400,
    "The `content[].thinking` in the thinking mode must be passed back to the API.",
    "github.com/decolua/9router/issues/2397",
  ],
  [
    "placeholders",
    400,
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index 3",
    "github.com/MoonshotAI/kimi-agent-sdk/issues/169",
  ],
  [
    "history",
    400,
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    "platform.claude.com",
  ],
  [
    "history",
    400,
    "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    "platform.claude.com",
  ],
  [
    "history",
    400,
    "messages.4.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1",
    "github.com/anthropics/claude-code",
  ],
  [
    "history",
    400,
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1",
    "platform.openai.com",
  ],
  [
    "history",
    400,
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    "platform.openai.com",
  ],
  ["history", 400, "No tool output found for function call call_1.", "github.com/openai/codex"],
  ["history", 400, "No tool call found for function call output with call_id call_1.", "github.com/openai/codex"],
  [
    "history",
    400,
    "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    "github.com/google-gemini/gemini-cli/issues/3814",
  ],
  [
    "history",
    400,
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    "ai.google.dev",
  ],
  ["history", 400, "Not the same number of function calls and responses", "github.com/mistralai/client-python"],
  [
    "turns",
    400,
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "github.com/suitenumerique/conversations/issues/197",
  ],
  [
    "turns",
    500,
    "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
    "github.com/ggml-org/llama.cpp/issues/19851",
  ],
  ["turns", 400, "System message must be at the beginning.", "huggingface.co/Qwen"],
  [
    "turns",
    400,
    "messages.1.role: Input should be 'user' or 'assistant'",
    "github.com/anthropics/claude-code/issues/77698",
  ],
  ["turns", 400, "System role not supported", "huggingface.co/google/gemma-2-9b-it"],
  ["turns", 400, "role 'system' is not supported on this model", "github.com/anthropics/claude-code/issues/61412"],
  ["turns", 400, "Unexpected role 'user' after role 'tool'", "github.com/yetone/avante.nvim/issues/2695"],
  [
    "ending",
    400,
    "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    "docs.mistral.ai",
  ],
  ["turns", 400, "invalid params, invalid chat setting (2013)", "github.com/can1357/oh-my-pi/issues/954"],
  ["turns", 400, 'messages: first message must use the "user" role', "platform.claude.com"],
  [
    "companions",
    400,
    "messages.1.content.0: If an assistant message contains any thinking blocks, the first block must be `thinking` or `redacted_thinking`. Found `text`.",
    "github.com/anthropics/claude-code/issues/20698",
  ],
  [
    "history",
    400,
    "messages.87.content.1.text: cache_control cannot be set for empty text blocks",
    "github.com/anthropics/claude-code/issues/55302",
  ],
  ["history", 400, "messages: text content blocks must be non-empty", "github.com/BerriAI/litellm/issues/20575"],
  [
    "history",
    400,
    "messages.3: all messages must have non-empty content except for the optional final assistant message",
    "platform.claude.com",
  ],
  [
    "history",
    400,
    "Invalid request: the message at position 64 with role 'assistant' must not be empty",
    "github.com/anomalyco/opencode/issues/37887",
  ],
  [
    "history",
    400,
    "messages: final assistant content cannot end with trailing whitespace",
    "github.com/tailcallhq/forgecode/issues/1872",
  ],
  [
    "history",
    400,
    "messages.7.content.0.tool_use.input: Input should be a valid dictionary",
    "github.com/anthropics/claude-code",
  ],
  [
    "history",
    400,
    "messages.2.content.0.tool_result.content.0: Input tag 'tool_reference' found using 'type' does not match any of the expected tags: 'image', 'text'",
    "github.com/jwadow/kiro-gateway/pull/90",
  ],
  [
    "turns",
    400,
    "Failed to deserialize the JSON body into the target type: messages[7].role: unknown variant `system`, expected `user` or `assistant` at line 1 column 33985",
    "github.com/deepseek-ai/awesome-deepseek-integration/issues/639",
  ],
  ["turns", 400, "System messages are not allowed", "github.com/router-for-me/CLIProxyAPI/issues/3608"],
  ["format", 400, "output_config.format: Extra inputs are not permitted", "github.com/Portkey-AI/gateway/issues/1570"],
  [
    "schemas",
    400,
    "tools.11.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    "github.com/makenotion/notion-mcp-server/issues/341",
  ],
  [
    "schemas",
    400,
    "tools.31.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12).",
    "github.com/anthropics/claude-code/issues/586",
  ],
  [
    "schemas",
    400,
    "Invalid schema for function 'xxx': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
    "github.com/langchain-ai/langchainjs/issues/9804",
  ],
  [
    "stops",
    400,
    {
      error: {
        message:
          "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 9 instead.",
        type: "invalid_request_error",
        param: "stop",
        code: "array_above_max_length",
      },
    },
    "github.com/continuedev/continue/issues/2461",
  ],
  ["stops", 400, "len(stop) > 4 is not supported", "github.com/letta-ai/letta/issues/1272"],
  [
    "stops",
    400,
    { error: { message: "stop:最大只能有4个停止词", type: "", param: "", code: "1214" } },
    "github.com/QwenLM/Qwen-Agent/issues/370",
  ],
  [
    "stops",
    400,
    "'$.stop' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.",
    "github.com/langchain-ai/langchain/issues/20234",
  ],
  ["stops", 400, "The number of stop_sequences must not exceed 5", "github.com/continuedev/continue/issues/2702"],
  [
    "stops",
    400,
    "Unable to submit request because it has a stopSequences value of 10 but the supported range is from 1 (inclusive) to 6 (exclusive). Update the value and try again.",
    "github.com/continuedev/continue/issues/7849",
  ],
  [
    "stops",
    400,
    "stop_sequences: each stop sequence must contain non-whitespace",
    "github.com/BerriAI/litellm/issues/3286",
  ],
  [undefined, 400, "temperature must be below 2", ""],
  [undefined, 401, "Conversation roles must alternate user/assistant", "another status has another reason"],
  [
    undefined,
    400,
    { error: { message: "The prompt is too long: roles must alternate", code: "context_length_exceeded" } },
    "",
  ],
  [
    "ending",
    400,
    "This model does not support assistant message prefill. The conversation must end with a user message.",
    "github.com/strands-agents/sdk-python/issues/1694",
  ],
  ["ending", 400, "Prefilling assistant messages is no longer supported", "github.com/livekit/agents/issues/4907"],
  [
    "ending",
    400,
    "Please ensure that multiturn requests ends with a user role or a function response.",
    "github.com/songquanpeng/one-api/issues/836",
  ],
  [
    "ending",
    400,
    "Please ensure that single turn requests end with a user role or the role field is empty.",
    "github.com/microsoft/semantic-kernel/issues/13262",
  ],
  [
    "ending",
    400,
    "Requests ending with a model turn are not supported unless the last part is a function response.",
    "github.com/LibreChat-AI/agents/pull/323",
  ],
];

for (const [kind, status, body, source] of refusals)
  test(`${kind ?? "no repair"} after ${status} ${JSON.stringify(body).slice(0, 120)} (${source})`, () => {
    assert.equal(
      repairOf(status, upstreamErrorOf(typeof body === "string" ? { error: { message: body } } : body))?.kind,
      kind,
    );
  });

/** The body that a target gets after a repair, from a body of its own dialect. */
function repairedBodyOf(dialect: ConversationDialect, kind: Exclude<Repair, { kind: "omit" }>["kind"], body: object) {
  const bytes = Buffer.from(JSON.stringify(body));
  return parsedObject(
    repairedBytes(codecs[dialect], dialect, { body: bytes, framing: "whole" }, targetOf(dialect, "theirs"), [{ kind }]),
  );
}

test("reasoning of every chat server is left out, and everything else stays", () => {
  const message = {
    role: "assistant",
    content: "a",
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
  };
  const rest = { model: "m", own: 1.0 };
  const { extra_content, ...bare } = {
    extra_content: { google: { thought_signature: "S" } },
    ...(message.tool_calls[0] as object),
  };
  const body = repairedBodyOf("openai-chat", "companions", {
    ...rest,
    messages: [
      { ...message, reasoning_content: "r", reasoning: "r", reasoning_details: [{}], thinking_blocks: [{}] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: [] },
          { type: "text", text: "a" },
        ],
      },
      { role: "assistant", content: null, tool_calls: [{ ...bare, extra_content }] },
    ],
  });
  const bypass = { google: { thought_signature: "skip_thought_signature_validator" } };
  assert.deepEqual(body, {
    ...rest,
    messages: [
      message,
      { role: "assistant", content: [{ type: "text", text: "a" }] },
      { role: "assistant", content: null, tool_calls: [{ ...bare, extra_content: bypass }] },
    ],
  });
});

test("messages of the assistant get an empty reasoning where it was lost", () => {
  const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } };
  const body = repairedBodyOf("openai-chat", "placeholders", {
    model: "m",
    messages: [
      { role: "assistant", content: null, tool_calls: [call], reasoning_content: "r" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "assistant", content: "a" },
      { role: "user", content: "q" },
    ],
  });
  assert.deepEqual(
    listOf(body?.messages).map((message) => objectOf(message).reasoning_content),
    ["r", " ", " ", undefined],
  );
});

test("a call without Google's signature gets the documented one, and others keep theirs", () => {
  const call = (more: object) => ({ id: "1", type: "function", function: { name: "f", arguments: "{}" }, ...more });
  const signed = { extra_content: { google: { thought_signature: "S" } } };
  const bypass = { extra_content: { google: { thought_signature: "skip_thought_signature_validator" } } };
  const body = repairedBodyOf("openai-chat", "signatures", {
    model: "m",
    messages: [
      { role: "assistant", content: null, tool_calls: [call({}), call({})] },
      { role: "assistant", content: null, tool_calls: [call(signed)] },
    ],
  });
  assert.deepEqual(
    listOf(body?.messages).map((message) => objectOf(message).tool_calls),
    [[call(bypass), call({})], [call(signed)]],
  );
});

test("thinking blocks are left out, and thinking is switched off where it can't go on", () => {
  const answered = [
    { type: "thinking", thinking: "t", signature: "S" },
    { type: "redacted_thinking", data: "D" },
    { type: "server_tool_use", id: "s", name: "web_search", input: {} },
    { type: "tool_use", id: "1", name: "f", input: {} },
  ];
  const messages = [
    { role: "user", content: "q" },
    { role: "assistant", content: answered },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: "r" }] },
  ];
  const body = repairedBodyOf("anthropic-messages", "companions", {
    model: "m",
    max_tokens: 2000,
    thinking: { type: "enabled", budget_tokens: 1024 },
    messages,
  });
  assert.deepEqual(body, {
    model: "m",
    max_tokens: 2000,
    thinking: { type: "disabled" },
    messages: messages.with(1, { role: "assistant", content: answered.slice(2) }),
  });
});

test("reasoning items are left out, and the ids of what followed them", () => {
  const input = [
    { type: "message", role: "user", id: "msg_0", content: "q" },
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "E" },
    { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: "r" },
  ];
  const { id: _, ...call } = input[2] as { id?: string };
  assert.deepEqual(repairedBodyOf("openai-responses", "companions", { model: "m", input })?.input, [
    input[0],
    call,
    input[3],
  ]);
});

test("ids that another server gave are left out of all items that need none, and of no others", () => {
  const named = [
    { type: "message", role: "user", content: "q" },
    { role: "assistant", content: "a" },
    { type: "reasoning", summary: [], encrypted_content: "E" },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: "r" },
    { type: "custom_tool_call", call_id: "d", name: "g", input: "x" },
    { type: "custom_tool_call_output", call_id: "d", output: "r" },
  ];
  const others = [{ type: "item_reference" }, {}, { type: "local_shell_call_output", output: "r" }];
  const input = [...named, ...others].map((item) => ({ ...item, id: "item_1" }));
  assert.deepEqual(repairedBodyOf("openai-responses", "item-ids", { model: "m", input })?.input, [
    ...named,
    ...input.slice(named.length),
  ]);
});

test("images in results of calls follow in a message of the user, behind all results", () => {
  const [png, note] = ["data:image/png;base64,iVBORw0KGgo=", "The result of call a includes:"];
  const calls = ["a", "b"].map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } }));
  const image = { type: "image_url", image_url: { url: png } };
  const [q, made] = [
    { role: "user", content: "q" },
    { role: "assistant", content: null, tool_calls: calls },
  ];
  const other = { role: "tool", tool_call_id: "b", content: "r" };
  const messages = [q, made, { role: "tool", tool_call_id: "a", content: [image] }, other];
  const chat = repairedBodyOf("openai-chat", "results", { model: "m", user: "u", messages });
  assert.deepEqual(chat, {
    model: "m",
    user: "u",
    messages: [
      q,
      made,
      { role: "tool", tool_call_id: "a", content: "The result is in the next message." },
      other,
      { role: "user", content: [{ type: "text", text: note }, image] },
    ],
  });

  const outputs = [
    {
      type: "function_call_output",
      call_id: "a",
      output: [
        { type: "input_text", text: "Done." },
        { type: "input_image", image_url: png, detail: "high" },
      ],
    },
    { type: "function_call_output", call_id: "b", output: "r" },
  ];
  const items = ["a", "b"].map((call_id) => ({ type: "function_call", call_id, name: "f", arguments: "{}" }));
  const responses = repairedBodyOf("openai-responses", "results", { model: "m", input: [...items, ...outputs] });
  assert.deepEqual(responses?.input, [
    ...items,
    { ...outputs[0], output: "Done." },
    outputs[1],
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_text", text: note },
        { type: "input_image", image_url: png, detail: "high" },
      ],
    },
  ]);
});

test("a compaction item that the upstream can't read is left out with the reasoning, and the model learns of it", () => {
  const user = { type: "message", role: "user", content: "q" };
  for (const type of ["compaction", "context_compaction", "compaction_summary"]) {
    const input = [{ type, id: "cmp_1", encrypted_content: "E" }, user];
    const [note, ...others] = listOf(repairedBodyOf("openai-responses", "companions", { model: "m", input })?.input);
    assert.match(String(objectOf(note).content), /were compacted by another model/);
    assert.deepEqual(others, [user]);
  }
});

test("instructions among messages become messages of the user, also beside blocks that only the vendor's servers make", () => {
  const messages = [
    { role: "user", content: "q" },
    { role: "system", content: "Look twice." },
    { role: "assistant", content: [{ type: "server_tool_use", id: "s", name: "web_search", input: {} }] },
    { role: "user", content: "go on" },
  ];
  const told = { role: "user", content: [{ type: "text", text: "<instructions>\nLook twice.\n</instructions>" }] };
  const body = repairedBodyOf("anthropic-messages", "turns", { model: "m", max_tokens: 1, messages });
  assert.deepEqual(body?.messages, messages.toSpliced(1, 1, told as never));
});

test("empty texts, ids of other vendors and references to tools are changed, and all other fields stay", () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const body = repairedBodyOf("anthropic-messages", "history", {
    model: "m",
    max_tokens: 9,
    tools: [{ type: "bash_20250124", name: "bash" }],
    system: [{ type: "text", text: "" }],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "q" },
          { type: "text", text: "", ...mark },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: " " },
          { type: "tool_use", id: "functions.Bash:0", name: "bash", input: "{}" },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "functions.Bash:0",
            content: [{ type: "tool_reference", tool_name: "f" }],
          },
        ],
      },
    ],
  });
  const id = "functions_Bash_0";
  assert.deepEqual(body, {
    model: "m",
    max_tokens: 9,
    tools: [{ type: "bash_20250124", name: "bash" }],
    messages: [
      { role: "user", content: [{ type: "text", text: "q" }] },
      { role: "assistant", content: [{ type: "tool_use", id, name: "bash", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: id, content: [{ type: "text", text: "The tool f is available." }] },
        ],
      },
    ],
  });
});

test("schemas of tools are rewritten by the rules of their vendor, and everything else stays", () => {
  const any = { anyOf: [{ type: "object", properties: { a: { type: "string" } }, required: ["a"] }] };
  const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"] };
  const hosted = { type: "web_search_20250305", name: "web_search", own: 1 };
  const named = { properties: { "a b": {} } };
  const rewritten = (dialect: ConversationDialect, toolFor: (parameters: object) => object) => {
    const rest = { model: "m", own: 1.0 };
    const tools = (parameters: object) => [toolFor(parameters), hosted];
    assert.deepEqual(repairedBodyOf(dialect, "schemas", { ...rest, tools: tools(any) }), {
      ...rest,
      tools: tools(schema),
    });
  };
  rewritten("anthropic-messages", (input_schema) => ({
    name: "f",
    input_schema,
    cache_control: { type: "ephemeral" },
  }));
  rewritten("openai-chat", (parameters) => ({ type: "function", function: { name: "f", parameters } }));
  rewritten("openai-responses", (parameters) => ({ type: "function", name: "f", parameters, strict: false }));
  const tools = [{ name: "f", input_schema: named }];
  assert.deepEqual(repairedBodyOf("anthropic-messages", "schemas", { model: "m", tools })?.tools, tools);
});

test("an instruction replaces a JSON schema for the answer", () => {
  const schema = {
    type: "object",
    properties: { a: { type: "string" } },
    required: ["a"],
    additionalProperties: false,
  };
  const format = { type: "json_schema", schema };
  const rest = { model: "claude-sonnet-5", max_tokens: 9, messages: [{ role: "user", content: "q" }] };
  for (const fields of [
    { output_config: { format }, system: "s" },
    { output_format: format, system: [{ type: "text", text: "s" }] },
  ]) {
    const { system, ...others } = objectOf(repairedBodyOf("anthropic-messages", "format", { ...rest, ...fields }));
    assert.deepEqual(others, rest);
    const [first, instruction] = listOf(system).map(objectOf);
    assert.equal(first?.text, "s");
    assert.match(String(instruction?.text), /JSON schema.*additionalProperties/s);
  }
  const request = codecs["openai-chat"].decodeRequest({
    body: { ...rest, response_format: { type: "json_schema", json_schema: { name: "n", schema } } },
    framing: "whole",
  });
  const target = repairedTarget(targetOf("anthropic-messages", "claude-sonnet-5"), [{ kind: "format" }]);
  const body = parsedObject(codecs["anthropic-messages"].encodeRequest(request, "whole", target).body);
  assert.equal(body?.output_config, undefined);
  assert.match(JSON.stringify(body?.system), /JSON schema/);
});

test("blocks of Anthropic's Messages in chat messages become calls and results, and other fields stay", () => {
  const messages = [
    { role: "user", content: "q" },
    { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "r" }] },
  ];
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const body = repairedBodyOf("openai-chat", "history", { model: "m", own: { a: 1 }, logit_bias: {}, messages });
  assert.deepEqual(body, {
    model: "m",
    own: { a: 1 },
    logit_bias: {},
    messages: [
      messages[0],
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c", content: "r" },
    ],
  });
});

test("signatures of parts are left out, and the first call of each turn gets the documented one instead", () => {
  const call = { functionCall: { name: "f", args: {} } };
  const contents = [
    { role: "user", parts: [{ text: "q" }] },
    {
      role: "model",
      parts: [{ text: "t", thought: true, thoughtSignature: "T" }, { ...call, thoughtSignature: "S" }, call],
    },
  ];
  const body = repairedBodyOf("gemini", "companions", { contents });
  assert.deepEqual(body, {
    contents: [
      contents[0],
      {
        role: "model",
        parts: [{ text: "t", thought: true }, { ...call, thoughtSignature: "skip_thought_signature_validator" }, call],
      },
    ],
  });
});

/** The body that an upstream of another dialect than the caller's gets after a repair. */
function translatedBodyOf(upstream: ConversationDialect, model: string, kind: Plain, messages: object[]) {
  const decoded = codecs["anthropic-messages"].decodeRequest({
    body: { max_tokens: 3_000, messages },
    framing: "whole",
  });
  const repairs = [{ kind }];
  const request = repairedRequest(consistent(decoded), repairs, upstream);
  const target = repairedTarget(targetOf(upstream, model), repairs);
  return parsedObject(codecs[upstream].encodeRequest(request, "whole", target).body) ?? {};
}
const wrapped = wrappedSignatureOf({ dialect: "openai-responses", data: "E", itemId: "rs_1" });
const turns = [
  { role: "user", content: "q" },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: "Hm.", signature: wrapped },
      { type: "tool_use", id: "c", name: "f", input: {} },
    ],
  },
  { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "r" }] },
];

test("translated requests are repaired in the same way", () => {
  const item = { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }], encrypted_content: "E" };
  const itemsAfter = (kind: Plain) => listOf(translatedBodyOf("openai-responses", "gpt-5.6", kind, turns).input);
  assert.deepEqual(itemsAfter("history")[1], { ...item, id: "rs_1" });
  assert.deepEqual(itemsAfter("item-ids")[1], item);
  assert.equal(itemsAfter("companions").length, 3);
  const chat = (kind: Plain) => objectOf(listOf(translatedBodyOf("openai-chat", "m", kind, turns).messages)[1]);
  assert.equal(chat("history").reasoning_content, undefined);
  assert.equal(chat("placeholders").reasoning_content, " ");
  assert.match(JSON.stringify(chat("signatures").tool_calls), /skip_thought_signature_validator/);
  assert.deepEqual(translatedBodyOf("anthropic-messages", "claude-sonnet-5", "placeholders", turns).thinking, {
    type: "disabled",
  });
});
