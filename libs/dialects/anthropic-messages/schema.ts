/**
 * The schemas of requests in Anthropic's Messages format:
 * https://platform.claude.com/docs/en/api/messages/create
 */
import Type from "typebox";
import {
  has,
  int32Max,
  looseParameters,
  modelName,
  nullable,
  optional,
  optionalFlag,
  optionalInteger,
  optionalList,
  optionalNumber,
  optionalObject,
  optionalText,
  optionalTexts,
  partsOrValue,
  type Schema,
  text,
  typed,
  typedOrNull,
  whenWith,
} from "../request-schema/schema-parts.ts";

const filledText = { type: "string", minLength: 1 };
const object = { type: "object" };
const when = (type: string, required: readonly string[], properties: Schema = {}) =>
  whenWith(has("type", type), properties, ...required);

const cacheControl = typedOrNull({ ttl: optionalText });

const textBlock = {
  ...object,
  required: ["type", "text"],
  properties: { type: { enum: ["text"] }, text, cache_control: cacheControl },
};
const citations = optionalObject({ enabled: optionalFlag });

/** `contents` are the schemas of the blocks that a document may contain. */
const attachmentOf = (contents: readonly Schema[]) =>
  typed(
    {},
    {
      allOf: [
        when("base64", ["media_type", "data"], { media_type: text, data: filledText }),
        when("text", ["data"], { data: filledText }),
        when("url", ["url"], { url: filledText }),
        when("file", ["file_id"], { file_id: filledText }),
        when("content", ["content"], {
          content: { type: ["string", "array"], items: typed({}, { allOf: contents }) },
        }),
      ],
    },
  );
const ofText = when("text", ["text"], { text });

const shared = [
  ofText,
  when("image", ["source"], { source: attachmentOf([ofText]) }),
  when("document", ["source"], {
    source: attachmentOf([ofText, when("image", ["source"], { source: attachmentOf([ofText]) })]),
    citations,
  }),
  when("search_result", ["source", "title", "content"], {
    source: text,
    title: text,
    content: { type: "array", items: textBlock },
    citations,
  }),
];

/** The blocks of a tool result. */
const innerBlock = typed({ cache_control: cacheControl, tool_name: text }, { allOf: shared });

const block = typed(
  { cache_control: cacheControl, ...optionalTexts("title", "context") },
  {
    allOf: [
      ...shared,
      when("tool_use", ["id", "name", "input"], { id: filledText, name: filledText }),
      when("tool_result", ["tool_use_id"], {
        content: partsOrValue(innerBlock),
        tool_use_id: filledText,
        is_error: optionalFlag,
      }),
      when("thinking", ["thinking"], { thinking: text, signature: optionalText }),
      when("redacted_thinking", ["data"], { data: text }),
    ],
  },
);

const message = {
  ...object,
  required: ["role"],
  properties: {
    role: { type: "string", enum: ["user", "assistant", "system"] },
    content: { type: ["string", "array", "null"], items: block },
    clear_at: optionalText,
    output_config: optionalObject(),
  },
  ...whenWith(has("role", "user", "assistant"), { content: { type: ["string", "array"] } }, "content"),
};

const isCustom = { anyOf: [{ not: { required: ["type"] } }, { properties: { type: { enum: ["custom", null] } } }] };

const tool = {
  ...object,
  properties: {
    type: optionalText,
    name: filledText,
    description: optionalText,
    strict: optionalFlag,
    defer_loading: optionalFlag,
    eager_input_streaming: optionalFlag,
    input_examples: nullable("array"),
    allowed_callers: optionalList(text),
    cache_control: cacheControl,
  },
  if: isCustom,
  then: {
    required: ["name", "input_schema"],
    properties: {
      name: { type: "string", pattern: "^[a-zA-Z0-9_-]{1,128}$" },
      // A tool of a caller's tool server may have any schema: one that is wrong must not refuse the
      // whole request (schema/tool-schemas.ts).
      input_schema: looseParameters,
    },
  },
};

const format = typedOrNull({}, when("json_schema", ["schema"], { schema: object }));

const edit = typed({ keep: { type: ["string", "object", "null"] } });

/** Fields that both endpoints accept. */
const counted = {
  model: modelName,
  messages: Type.Unsafe<unknown[]>({ type: "array", minItems: 1, maxItems: 100_000, items: message }),
  system: optional({ type: ["string", "array", "null"], items: textBlock }),
  cache_control: optional(cacheControl),
  output_config: optionalObject({ effort: optionalText, format, task_budget: optionalObject() }),
  output_format: optional(format),
  speed: optionalText,
  thinking: optional(
    typedOrNull(
      { display: optionalText },
      // DeepSeek's clients have none: https://api-docs.deepseek.com/guides/thinking_mode
      when("enabled", [], { budget_tokens: nullable("integer", { minimum: 1_024, maximum: int32Max }) }),
    ),
  ),
  tool_choice: optional(
    typedOrNull({ disable_parallel_tool_use: optionalFlag }, when("tool", ["name"], { name: filledText })),
  ),
  tools: optionalList(tool),
  context_management: optionalObject({ edits: nullable("array", { items: edit }) }),
  compaction: optionalObject(),
  mcp_servers: optionalList(object),
  billing_policy: optionalObject(),
  thread: optionalObject(),
};

const maxTokens = { type: "integer", minimum: 0, maximum: int32Max };

/**
 * Checks the known fields for type and range. Unknown fields pass, and so do unknown values of
 * fields to which the vendor may add values. `null` counts as absent. No defaults and no coercion:
 * a check never changes the caller's body. Both API versions are accepted.
 */
export const messagesRequestSchema = Type.Object({
  ...counted,
  max_tokens: Type.Unsafe<number>(maxTokens),
  stream: optionalFlag,
  stop_sequences: optionalList(text),
  temperature: optionalNumber(0, 1),
  top_p: optionalNumber(0, 1),
  top_k: optionalInteger(0, int32Max),
  metadata: optionalObject({ user_id: optionalText }),
  service_tier: optionalText,
  container: optional({ type: ["string", "object", "null"] }),
  diagnostics: optionalObject(),
  inference_geo: optionalText,
  fallbacks: optional({ type: ["string", "array", "null"] }),
});

/** A request to count a prompt's tokens. */
export const tokenCountRequestSchema = Type.Object({
  ...counted,
  max_tokens: optional({ ...maxTokens, ...nullable("integer") }),
});
