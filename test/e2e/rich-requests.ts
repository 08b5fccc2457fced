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
  /** Fields that an upstream can't be given. */
  without?: Record<string, readonly string[]>;
  /** Where any value is the caller's own affair. */
  opaque: RegExp;
  /** Fields that are wrong only in their range, or by what stands beside them: path and value. */
  outOfRange: readonly (readonly [path: string, value: unknown])[];
}

const pngUrl = `data:image/png;base64,${png.toString("base64")}`;
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");
const schema = weather.schema;
const conversations: readonly ConversationDialect[] = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"];

const chat: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/chat/completions",
  upstreams: conversations,
  without: {
    "openai-responses": ["logprobs", "top_logprobs", "logit_bias", "audio", "stop", "presence_penalty", "frequency_penalty", "messages[2].content[3]"],
    "anthropic-messages": ["logprobs", "top_logprobs", "logit_bias", "audio", "presence_penalty", "frequency_penalty", "messages[2].content[3]"],
    gemini: ["logprobs", "top_logprobs", "logit_bias", "audio"],
  },
  opaque:
    /^(messages\[\d\]\.name|metadata|logit_bias|tools\[\d\]\.function\.parameters|response_format\.json_schema\.schema|prediction|web_search_options|moderation)\b./,
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
      {
        type: "custom",
        custom: { name: "note", description: "Takes a note.", format: { type: "grammar", grammar: { definition: "start: /.+/", syntax: "lark" } } },
      },
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

const responses: RichRequest = {
  dialect: "openai-responses",
  pathOf: () => "/v1/responses",
  upstreams: conversations,
  without: { "openai-chat": ["top_logprobs"], "anthropic-messages": ["top_logprobs"], gemini: ["top_logprobs"] },
  opaque:
    /^(metadata|client_metadata|tools\[\d\](\.tools\[\d\])?\.parameters|text\.format\.schema|moderation|prompt_cache_options|input\[\d\].*\.annotations)\b./,
  bodyOf: (model) => ({
    model,
    instructions: "Be brief.",
    input: [
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "What is this?", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
          { type: "input_image", image_url: pngUrl, detail: "low" },
          { type: "input_file", file_data: `data:application/pdf;base64,${pdf}`, filename: "a.pdf" },
        ],
      },
      { role: "developer", content: "Speak English." },
      { type: "reasoning", summary: [{ type: "summary_text", text: "Look it up." }], status: "completed" },
      { type: "function_call", id: "fc_1", call_id: "call_1", name: "get_weather", arguments: '{"city":"Paris"}', status: "completed" },
      { type: "custom_tool_call", id: "ctc_1", call_id: "call_2", name: "note", input: "sunny" },
      { type: "function_call_output", call_id: "call_1", output: "Sunny" },
      { type: "custom_tool_call_output", call_id: "call_2", output: [{ type: "input_text", text: "noted" }] },
      { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [{ type: "output_text", text: "Sunny.", annotations: [] }] },
      { type: "message", role: "user", content: "Thanks" },
    ],
    tools: [
      { type: "function", name: "get_weather", description: "Says the weather.", parameters: schema, strict: true },
      { type: "custom", name: "note", description: "Takes a note.", format: { type: "grammar", syntax: "lark", definition: "start: /.+/" } },
      {
        type: "namespace",
        name: "time",
        description: "Tells times.",
        tools: [{ type: "function", name: "get_time", description: "Says the time.", parameters: null, strict: false }],
      },
    ],
    tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "get_weather" }] },
    parallel_tool_calls: true,
    max_output_tokens: 100,
    max_tool_calls: 3,
    temperature: 0.5,
    top_p: 0.9,
    top_logprobs: 2,
    reasoning: { effort: "low", summary: "auto", context: "auto" },
    text: { verbosity: "low", format: { type: "json_schema", name: "answer", description: "The answer.", schema, strict: true } },
    include: ["reasoning.encrypted_content"],
    metadata: { a: "b" },
    client_metadata: { a: "b" },
    stream: false,
    stream_options: { include_obfuscation: false },
    store: false,
    background: false,
    truncation: "disabled",
    service_tier: "auto",
    safety_identifier: "u1",
    user: "u1",
    prompt_cache_key: "k",
    prompt_cache_options: { mode: "implicit", ttl: "30m" },
    prompt_cache_retention: "24h",
    moderation: { model: "m" },
    access_programs: { cyber: "standard" },
    image: { context_compression: "auto" },
  }),
  outOfRange: [],
};

const inputTokens: RichRequest = {
  ...responses,
  pathOf: () => "/v1/responses/input_tokens",
  bodyOf: (model) => ({ ...responses.bodyOf(model), personality: "friendly" }),
};

const messages: RichRequest = {
  dialect: "anthropic-messages",
  pathOf: () => "/v1/messages",
  upstreams: conversations,
  without: { "openai-responses": ["stop_sequences"], "anthropic-messages": ["messages[0].content[5]"] },
  opaque: /((^|\.)(input|input_schema|schema|input_examples)\b.|^(diagnostics)\b.)/,
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
          { type: "search_result", source: "https://example.com", title: "Example", content: [{ type: "text", text: "found" }], citations: { enabled: false } },
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
      { name: "get_weather", type: "custom", description: "Says the weather.", input_schema: schema, strict: true, cache_control: { type: "ephemeral" } },
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
  outOfRange: [],
};
const answerFields = ["stop_sequences", "stream", "temperature", "top_p", "top_k", "metadata", "service_tier", "inference_geo"];
const countTokens: RichRequest = {
  ...messages,
  pathOf: () => "/v1/messages/count_tokens",
  bodyOf: (model) => Object.fromEntries(Object.entries(messages.bodyOf(model)).filter(([name]) => !answerFields.includes(name))),
};

const googleSchema = { type: "OBJECT", properties: { city: { type: "STRING", maxLength: "40" } }, required: ["city"] };

const googleBody = (): Body => ({
  contents: [
    {
      role: "user",
      parts: [
        { text: "What is this?" },
        { inlineData: { mimeType: "image/png", data: png.toString("base64"), displayName: "a.png" }, mediaResolution: { level: "MEDIA_RESOLUTION_LOW" } },
        { inlineData: { mimeType: "application/pdf", data: pdf } },
      ],
    },
    {
      role: "model",
      parts: [
        { text: "Look it up.", thought: true },
        { functionCall: { id: "call_1", name: "get_weather", args: { city: "Paris" } }, thoughtSignature: "skip_thought_signature_validator" },
      ],
    },
    { role: "user", parts: [{ functionResponse: { id: "call_1", name: "get_weather", response: { result: "Sunny" } } }] },
    { role: "model", parts: [{ text: "Sunny." }] },
    { role: "user", parts: [{ text: "Thanks" }] },
  ],
  systemInstruction: { role: "user", parts: [{ text: "Be brief." }] },
  tools: [
    {
      functionDeclarations: [
        { name: "get_weather", description: "Says the weather.", parameters: googleSchema, behavior: "BLOCKING" },
        { name: "get_time", description: "Says the time.", parametersJsonSchema: schema, responseJsonSchema: schema },
      ],
    },
  ],
  toolConfig: { functionCallingConfig: { mode: "VALIDATED", allowedFunctionNames: ["get_weather"] } },
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  serviceTier: "standard",
  store: false,
  labels: { team: "a" },
  generationConfig: {
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    candidateCount: 1,
    maxOutputTokens: 100,
    stopSequences: ["END"],
    seed: 7,
    presencePenalty: 0.5,
    frequencyPenalty: 0.5,
    responseLogprobs: false,
    logprobs: 0,
    responseMimeType: "application/json",
    responseSchema: googleSchema,
    responseModalities: ["TEXT"],
    mediaResolution: "MEDIA_RESOLUTION_LOW",
    thinkingConfig: { includeThoughts: true, thinkingLevel: "LOW" },
  },
});

const google: RichRequest = {
  dialect: "gemini",
  pathOf: (model) => `/v1beta/models/${model}:generateContent`,
  upstreams: conversations,
  without: {
    "openai-responses": ["generationConfig.stopSequences", "generationConfig.presencePenalty", "generationConfig.frequencyPenalty"],
    "anthropic-messages": ["generationConfig.presencePenalty", "generationConfig.frequencyPenalty"],
  },
  opaque: /((^|\.)(args|response|labels|parameters|parametersJsonSchema|responseJsonSchema|responseSchema|mediaResolution)\b.|safetySettings)/,
  bodyOf: googleBody,
  outOfRange: [],
};
const googleStream: RichRequest = { ...google, pathOf: (model) => `/v1/models/${model}:streamGenerateContent?alt=sse` };
const googleCount: RichRequest = {
  ...google,
  pathOf: (model) => `/v1beta/models/${model}:countTokens`,
  bodyOf: () => ({ generateContentRequest: googleBody() }),
  without: Object.fromEntries(
    Object.entries(google.without ?? {}).map(([upstream, paths]) => [upstream, paths.map((path) => `generateContentRequest.${path}`)]),
  ),
};

const embeddings: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/embeddings",
  upstreams: ["embedding", "gemini-embedding"],
  opaque: /^$/,
  bodyOf: (model) => ({ model, input: ["a", "b"], dimensions: 8, encoding_format: "float", user: "u1" }),
  outOfRange: [],
};
const embedOne: Body = { content: { parts: [{ text: "a" }] }, taskType: "RETRIEVAL_QUERY", title: "t", outputDimensionality: 8 };
const embedContent: RichRequest = {
  dialect: "gemini",
  pathOf: (model) => `/v1beta/models/${model}:embedContent`,
  upstreams: ["embedding", "gemini-embedding"],
  opaque: /^$/,
  bodyOf: (model) => ({ model: `models/${model}`, ...embedOne }),
  outOfRange: [],
};
const batchEmbed: RichRequest = {
  ...embedContent,
  pathOf: (model) => `/v1beta/models/${model}:batchEmbedContents`,
  bodyOf: (model) => ({
    requests: [
      { model: `models/${model}`, ...embedOne },
      { model: `models/${model}`, ...embedOne },
    ],
  }),
};
const images: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/images/generations",
  upstreams: ["picture", "gemini-picture"],
  opaque: /^$/,
  bodyOf: (model) => ({
    model,
    prompt: "a cat",
    n: 1,
    size: "1024x1024",
    quality: "low",
    background: "auto",
    output_format: "png",
    output_compression: 100,
    moderation: "auto",
    partial_images: 0,
    stream: false,
    response_format: "b64_json",
    user: "u1",
    safety_identifier: "u1",
    style: "vivid",
  }),
  outOfRange: [],
};

export const richRequests = {
  chat,
  responses,
  inputTokens,
  messages,
  countTokens,
  google,
  googleStream,
  googleCount,
  embeddings,
  embedContent,
  batchEmbed,
  images,
} satisfies Record<string, RichRequest>;
