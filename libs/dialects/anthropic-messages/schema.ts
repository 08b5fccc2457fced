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
  partsOrValue,
  type Schema,
  text,
} from "../request-schema/schema-parts.ts";

const filledText = { type: "string", minLength: 1 };
const object = { type: "object" };
const when = (types: readonly string[], required: readonly string[], properties: Schema = {}) => ({
  if: has("type", ...types),
  then: { required, properties },
});

const cacheControl = { ...nullable("object"), required: ["type"], properties: { type: text, ttl: nullable("string") } };

const textBlock = {
  ...object,
  required: ["type", "text"],
  properties: { type: { enum: ["text"] }, text, cache_control: cacheControl },
};
const citations = { ...nullable("object"), properties: { enabled: nullable("boolean") } };

/** `contents` are the schemas of the blocks that a document may contain. */
const attachmentOf = (contents: readonly Schema[]) => ({
  ...object,
  required: ["type"],
  properties: {
    type: text,
    media_type: text,
    data: filledText,
    url: filledText,
    file_id: filledText,
    content: {
      type: ["string", "array"],
      items: { ...object, required: ["type"], properties: { type: text }, allOf: contents },
    },
  },
  allOf: [
    when(["base64"], ["media_type", "data"]),
    when(["text"], ["data"]),
    when(["url"], ["url"]),
    when(["file"], ["file_id"]),
    when(["content"], ["content"]),
  ],
});
const ofText = when(["text"], ["text"], { text });

const shared = [
  ofText,
  when(["image"], ["source"], { source: attachmentOf([ofText]) }),
  when(["document"], ["source"], {
    source: attachmentOf([ofText, when(["image"], ["source"], { source: attachmentOf([ofText]) })]),
    citations,
  }),
  when(["search_result"], ["source", "title", "content"], {
    source: text,
    title: text,
    content: { type: "array", items: textBlock },
    citations,
  }),
];

/** The blocks of a tool result. */
const innerBlock = {
  ...object,
  required: ["type"],
  properties: { type: text, cache_control: cacheControl, tool_name: text },
  allOf: shared,
};

const block = {
  ...object,
  required: ["type"],
  properties: { type: text, cache_control: cacheControl, title: nullable("string"), context: nullable("string") },
  allOf: [
    ...shared,
    when(["tool_use"], ["id", "name", "input"], { id: filledText, name: filledText }),
    when(["tool_result"], ["tool_use_id"], {
      content: partsOrValue(innerBlock),
      tool_use_id: filledText,
      is_error: nullable("boolean"),
    }),
    when(["thinking"], ["thinking"], { thinking: text, signature: nullable("string") }),
    when(["redacted_thinking"], ["data"], { data: text }),
  ],
};

const message = {
  ...object,
  required: ["role"],
  properties: {
    role: { type: "string", enum: ["user", "assistant", "system"] },
    content: { type: ["string", "array", "null"], items: block },
    clear_at: nullable("string"),
    output_config: nullable("object"),
  },
  if: has("role", "user", "assistant"),
  then: { required: ["content"], properties: { content: { type: ["string", "array"] } } },
};

const isCustom = { anyOf: [{ not: { required: ["type"] } }, { properties: { type: { enum: ["custom", null] } } }] };

const tool = {
  ...object,
  properties: {
    type: nullable("string"),
    name: filledText,
    description: nullable("string"),
    strict: nullable("boolean"),
    defer_loading: nullable("boolean"),
    eager_input_streaming: nullable("boolean"),
    input_examples: nullable("array"),
    allowed_callers: { ...nullable("array"), items: text },
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

const format = {
  ...nullable("object"),
  required: ["type"],
  properties: { type: text, schema: object },
  allOf: [when(["json_schema"], ["schema"])],
};

const edit = {
  ...object,
  required: ["type"],
  properties: { type: text, keep: { type: ["string", "object", "null"] } },
};

/** Fields that both endpoints accept. */
const counted = {
  model: modelName,
  messages: Type.Unsafe<unknown[]>({ type: "array", minItems: 1, maxItems: 100_000, items: message }),
  system: optional({ type: ["string", "array", "null"], items: textBlock }),
  cache_control: optional(cacheControl),
  output_config: optionalObject({ effort: nullable("string"), format, task_budget: nullable("object") }),
  output_format: optional(format),
  speed: optionalText,
  thinking: optional({
    ...nullable("object"),
    required: ["type"],
    properties: { type: text, display: nullable("string") },
    allOf: [
      when(["enabled"], ["budget_tokens"], { budget_tokens: { type: "integer", minimum: 1_024, maximum: int32Max } }),
    ],
  }),
  tool_choice: optional({
    ...nullable("object"),
    required: ["type"],
    properties: { type: text, name: filledText, disable_parallel_tool_use: nullable("boolean") },
    allOf: [when(["tool"], ["name"])],
  }),
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
  metadata: optionalObject({ user_id: nullable("string") }),
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
