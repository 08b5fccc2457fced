/** A valid request for every endpoint, with most of the fields that its dialect has: what is changed in it, one field at a time, is bad input. */
import type { ConversationDialect } from "#wire/dialect.ts";
import { png, weather } from "../clients/support.ts";

type Body = Record<string, unknown>;

export interface RichRequest {
  dialect: ConversationDialect;
  pathOf(model: string): string;
  bodyOf(model: string): Body;
  /** Models of these upstreams are asked. */
  upstreams: readonly string[];
  /** Fields that an upstream of another dialect can't be given. */
  own?: readonly string[];
  /** Where any value is the caller's own affair. */
  opaque: RegExp;
  /** Fields that are wrong only in their range, or by what stands beside them: path and value. */
  outOfRange: readonly (readonly [path: string, value: unknown])[];
}

const pngUrl = `data:image/png;base64,${png.toString("base64")}`;
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");
const schema = weather.schema;
const conversations: readonly ConversationDialect[] = ["openai-chat", "openai-responses", "gemini"];

const chat: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/chat/completions",
  upstreams: conversations,
  own: ["n", "logprobs", "top_logprobs", "logit_bias", "modalities", "stop", "presence_penalty", "frequency_penalty", "audio"],
  opaque: /^(messages\[\d\]\.name|metadata|logit_bias|tools\[\d\]\.function\.parameters|response_format\.json_schema\.schema|prediction|web_search_options|moderation)\b./,
  bodyOf: (model) => ({
    model,
    messages: [
      { role: "system", content: "Be brief.", name: "rules" },
      { role: "developer", content: [{ type: "text", text: "Speak English." }] },
      {
        role: "user",
        name: "ada",
        content: [
          { type: "text", text: "What is this?", prompt_cache_breakpoint: { mode: "explicit", ttl: "30m" } },
          { type: "image_url", image_url: { url: pngUrl, detail: "low" } },
          { type: "file", file: { file_data: `data:application/pdf;base64,${pdf}`, filename: "a.pdf" } },
          { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        refusal: null,
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris"}' } },
          { id: "call_2", type: "custom", custom: { name: "note", input: "sunny" } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: "Sunny" },
      { role: "tool", tool_call_id: "call_2", content: [{ type: "text", text: "noted" }] },
      { role: "assistant", content: [{ type: "text", text: "Sunny." }], name: "bot" },
      { role: "user", content: "Thanks" },
    ],
    tools: [
      { type: "function", function: { name: "get_weather", description: "Says the weather.", parameters: schema, strict: true } },
      { type: "custom", custom: { name: "note", description: "Takes a note.", format: { type: "grammar", grammar: { definition: "start: /.+/", syntax: "lark" } } } },
    ],
    tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "get_weather" } }] } },
    parallel_tool_calls: true,
    temperature: 0.5,
    top_p: 0.9,
    n: 1,
    max_completion_tokens: 100,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    logprobs: true,
    top_logprobs: 2,
    logit_bias: { 50256: -100 },
    modalities: ["text"],
    audio: { format: "wav", voice: "alloy" },
    stop: ["END"],
    seed: 7,
    stream: false,
    stream_options: { include_usage: true, include_obfuscation: false },
    reasoning_effort: "low",
    verbosity: "low",
    response_format: { type: "json_schema", json_schema: { name: "answer", description: "The answer.", schema, strict: true } },
    user: "u1",
    safety_identifier: "u1",
    metadata: { a: "b" },
    store: false,
    service_tier: "auto",
    prompt_cache_key: "k",
    prompt_cache_options: { mode: "implicit", ttl: "30m" },
    prompt_cache_retention: "24h",
    prediction: { type: "content", content: "Sunny" },
    moderation: { model: "m", policy: { input: { mode: "score" } } },
  }),
  outOfRange: [],
};

export const richRequests = { chat } satisfies Record<string, RichRequest>;
