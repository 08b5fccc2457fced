/** What a request in OpenAI's chat-completions format may look like: https://platform.openai.com/docs/api-reference/chat/create */
import Type from "typebox";

const nullable = (type: string) => ({ type: [type, "null"] });
const text = Type.Unsafe<string>({ type: "string" });
/** The member is there and is one of these: what is missing is told as missing, and not by what would follow from it. */
const has = (member: string, ...values: string[]) => ({ required: [member], properties: { [member]: { enum: values } } });

const contentPart = Type.Object(
  {
    type: text,
    text: Type.Optional(text),
    refusal: Type.Optional(text),
    image_url: Type.Optional(Type.Object({ url: Type.String({ minLength: 1 }), detail: Type.Optional(Type.Unsafe<string | null>(nullable("string"))) })),
    input_audio: Type.Optional(Type.Object({ data: Type.String({ minLength: 1 }), format: text })),
    file: Type.Optional(Type.Object({ file_data: Type.Optional(text), file_id: Type.Optional(text), filename: Type.Optional(text) })),
  },
  {
    allOf: [
      { if: has("type", "text"), then: { required: ["text"] } },
      { if: has("type", "image_url"), then: { required: ["image_url"] } },
      { if: has("type", "input_audio"), then: { required: ["input_audio"] } },
      { if: has("type", "file"), then: { required: ["file"] } },
      { if: has("type", "refusal"), then: { required: ["refusal"] } },
    ],
  },
);

const toolCall = Type.Object({
  type: Type.Optional(Type.Unsafe<string | null>(nullable("string"))),
  id: Type.Optional(text),
  function: Type.Optional(Type.Object({ name: text, arguments: Type.Optional(text) })),
  custom: Type.Optional(Type.Object({ name: text, input: text })),
});

const message = Type.Object(
  {
    role: Type.Unsafe<string>({ type: "string", enum: ["system", "developer", "user", "assistant", "tool", "function"] }),
    content: Type.Optional(Type.Unsafe<unknown>({ type: ["string", "array", "null"], items: contentPart })),
    name: Type.Optional(Type.Unsafe<string | null>(nullable("string"))),
    tool_call_id: Type.Optional(text),
    tool_calls: Type.Optional(Type.Unsafe<unknown>({ type: ["array", "null"], items: toolCall })),
    refusal: Type.Optional(Type.Unsafe<string | null>(nullable("string"))),
  },
  {
    allOf: [
      { if: has("role", "tool"), then: { required: ["tool_call_id", "content"] } },
      {
        if: has("role", "system", "developer", "user"),
        then: { required: ["content"], properties: { content: { type: ["string", "array"] } } },
      },
    ],
  },
);

const tool = Type.Object(
  {
    type: text,
    function: Type.Optional(
      Type.Object({
        name: Type.String({ minLength: 1 }),
        description: Type.Optional(Type.Unsafe<string | null>(nullable("string"))),
        parameters: Type.Optional(Type.Unsafe<unknown>(nullable("object"))),
        strict: Type.Optional(Type.Unsafe<boolean | null>(nullable("boolean"))),
      }),
    ),
    custom: Type.Optional(Type.Object({ name: Type.String({ minLength: 1 }), description: Type.Optional(Type.Unsafe<string | null>(nullable("string"))) })),
  },
  {
    allOf: [
      { if: has("type", "function"), then: { required: ["function"] } },
      { if: has("type", "custom"), then: { required: ["custom"] } },
    ],
  },
);

const optional = (schema: Record<string, unknown>) => Type.Optional(Type.Unsafe<unknown>(schema));
const optionalNumber = (minimum: number, maximum: number) => optional({ ...nullable("number"), minimum, maximum });
const optionalInteger = (minimum: number, maximum?: number) => optional({ ...nullable("integer"), minimum, ...(maximum !== undefined && { maximum }) });

/**
 * The fields this gateway knows, checked for type and range; fields it does not know pass. `null` counts as absent where the format says optional.
 * No defaults and no coercion: the caller's body is never rewritten by a check.
 */
export const chatRequestSchema = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 256 }),
  messages: Type.Array(message, { minItems: 1 }),
  stream: Type.Optional(Type.Unsafe<boolean | null>(nullable("boolean"))),
  stream_options: Type.Optional(
    Type.Unsafe<{ include_usage?: boolean | null } | null>({ ...nullable("object"), properties: { include_usage: nullable("boolean") } }),
  ),
  n: Type.Optional(Type.Unsafe<number | null>({ ...nullable("integer"), minimum: 1, maximum: 128 })),
  max_completion_tokens: optionalInteger(1),
  max_tokens: optionalInteger(1),
  temperature: optionalNumber(0, 2),
  top_p: optionalNumber(0, 1),
  frequency_penalty: optionalNumber(-2, 2),
  presence_penalty: optionalNumber(-2, 2),
  top_logprobs: optionalInteger(0, 20),
  logprobs: optional(nullable("boolean")),
  seed: optionalInteger(Number.MIN_SAFE_INTEGER),
  reasoning_effort: optional(nullable("string")),
  response_format: optional({
    ...nullable("object"),
    required: ["type"],
    properties: {
      type: { type: "string" },
      json_schema: { type: "object", required: ["name"], properties: { name: { type: "string" }, schema: nullable("object"), strict: nullable("boolean") } },
    },
    if: has("type", "json_schema"),
    then: { required: ["json_schema"] },
  }),
  tools: Type.Optional(Type.Unsafe<unknown>({ type: ["array", "null"], items: tool })),
  tool_choice: optional({ type: ["string", "object", "null"] }),
  parallel_tool_calls: optional(nullable("boolean")),
  stop: optional({ type: ["string", "array", "null"], items: { type: "string" } }),
  user: optional(nullable("string")),
  metadata: optional(nullable("object")),
  logit_bias: optional(nullable("object")),
  modalities: optional({ type: ["array", "null"], items: { type: "string" } }),
  store: optional(nullable("boolean")),
  service_tier: optional(nullable("string")),
  verbosity: optional(nullable("string")),
  safety_identifier: optional(nullable("string")),
  prompt_cache_key: optional(nullable("string")),
});

export type ChatRequest = Type.Static<typeof chatRequestSchema>;
