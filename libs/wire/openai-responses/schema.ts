/** What a request in OpenAI's Responses format may look like: https://platform.openai.com/docs/api-reference/responses/create */
import Type from "typebox";

const nullable = (type: string) => ({ type: [type, "null"] });
const text = Type.Unsafe<string>({ type: "string" });
const optional = (schema: Record<string, unknown>) => Type.Optional(Type.Unsafe<unknown>(schema));
const optionalText = (lengthMax?: number) => optional({ ...nullable("string"), ...(lengthMax !== undefined && { maxLength: lengthMax }) });
const optionalNumber = (minimum: number, maximum: number) => optional({ ...nullable("number"), minimum, maximum });
const optionalInteger = (minimum: number, maximum?: number) => optional({ ...nullable("integer"), minimum, ...(maximum !== undefined && { maximum }) });
const optionalBoolean = optional(nullable("boolean"));
const optionalObject = optional(nullable("object"));
/** The member is there and is one of these: what is missing is told as missing, and not by what would follow from it. */
const has = (member: string, ...values: string[]) => ({ required: [member], properties: { [member]: { enum: values } } });
const lacks = (member: string) => ({ not: { required: [member] } });
const when = (condition: object, ...required: string[]) => ({ if: condition, then: { required } });

const contentPart = Type.Object(
  {
    type: text,
    text: Type.Optional(text),
    refusal: Type.Optional(text),
    image_url: optionalText(),
    file_id: optionalText(),
    file_data: optionalText(),
    file_url: optionalText(),
    filename: optionalText(),
    detail: optionalText(),
    input_audio: Type.Optional(Type.Object({ data: Type.String({ minLength: 1 }), format: text })),
    prompt_cache_breakpoint: optionalObject,
  },
  {
    allOf: [
      when(has("type", "input_text", "output_text", "text", "summary_text", "reasoning_text"), "text"),
      when(has("type", "refusal"), "refusal"),
      when(has("type", "input_audio"), "input_audio"),
    ],
  },
);

const toolMembers = {
  type: text,
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  description: optionalText(),
  parameters: optionalObject,
  strict: optionalBoolean,
  format: optionalObject,
};
const namedTool = when(has("type", "function", "custom"), "name");
const tool = Type.Object(
  { ...toolMembers, tools: Type.Optional(Type.Array(Type.Object(toolMembers, { allOf: [namedTool] }))) },
  { allOf: [namedTool, when(has("type", "namespace"), "name", "tools")] },
);

const partsOrText = { type: ["string", "array"], items: contentPart };

const item = Type.Object(
  {
    type: optionalText(),
    id: optionalText(),
    role: Type.Optional(Type.Unsafe<string>({ type: "string", enum: ["user", "assistant", "system", "developer"] })),
    content: optional({ type: ["string", "array", "null"], items: contentPart }),
    name: optionalText(),
    namespace: optionalText(),
    call_id: optionalText(),
    summary: optional({ ...nullable("array"), items: contentPart }),
    encrypted_content: optionalText(),
  },
  {
    allOf: [
      { if: { allOf: [lacks("type"), lacks("id")] }, then: { required: ["role", "content"] } },
      { if: has("type", "message"), then: { required: ["role", "content"], properties: { content: partsOrText } } },
      {
        if: has("type", "function_call"),
        then: { required: ["call_id", "name", "arguments"], properties: { call_id: text, name: text, arguments: text } },
      },
      { if: has("type", "custom_tool_call"), then: { required: ["call_id", "name", "input"], properties: { call_id: text, name: text, input: text } } },
      {
        if: has("type", "function_call_output", "custom_tool_call_output"),
        then: { required: ["call_id", "output"], properties: { call_id: text, output: partsOrText } },
      },
      { if: has("type", "additional_tools"), then: { required: ["tools"], properties: { tools: { type: "array", items: tool } } } },
    ],
  },
);

/**
 * The fields this gateway knows, checked for type and range; fields it does not know pass. `null` counts as absent where the format says optional.
 * No defaults and no coercion: the caller's body is never rewritten by a check. It also serves the counting of tokens, which takes the same fields.
 */
export const responsesRequestSchema = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 256 }),
  input: Type.Unsafe<unknown>({ type: ["string", "array"], items: item }),
  stream: Type.Optional(Type.Unsafe<boolean | null>(nullable("boolean"))),
  instructions: optionalText(),
  max_output_tokens: optionalInteger(1),
  max_tool_calls: optionalInteger(1),
  temperature: optionalNumber(0, 2),
  top_p: optionalNumber(0, 1),
  top_logprobs: optionalInteger(0, 20),
  parallel_tool_calls: optionalBoolean,
  tools: optional({ ...nullable("array"), items: tool }),
  tool_choice: optional({ type: ["string", "object", "null"] }),
  reasoning: optional({
    ...nullable("object"),
    properties: { effort: nullable("string"), summary: nullable("string"), generate_summary: nullable("string"), context: nullable("string") },
  }),
  text: optional({
    ...nullable("object"),
    properties: {
      verbosity: nullable("string"),
      format: {
        ...nullable("object"),
        required: ["type"],
        properties: {
          type: { type: "string" },
          name: nullable("string"),
          description: nullable("string"),
          schema: nullable("object"),
          strict: nullable("boolean"),
        },
        if: has("type", "json_schema"),
        then: { required: ["name", "schema"] },
      },
    },
  }),
  metadata: optional({ ...nullable("object"), maxProperties: 16, additionalProperties: { type: "string", maxLength: 512 } }),
  include: optional({ ...nullable("array"), items: { type: "string" } }),
  store: optionalBoolean,
  background: optionalBoolean,
  previous_response_id: optionalText(),
  conversation: optional({ type: ["string", "object", "null"] }),
  prompt: optionalObject,
  prompt_cache_key: optionalText(),
  prompt_cache_options: optionalObject,
  prompt_cache_retention: optionalText(),
  context_management: optional(nullable("array")),
  stream_options: optionalObject,
  client_metadata: optionalObject,
  moderation: optionalObject,
  access_programs: optionalObject,
  image: optionalObject,
  safety_identifier: optionalText(128),
  user: optionalText(),
  service_tier: optionalText(),
  truncation: optionalText(),
});

export type ResponsesRequest = Type.Static<typeof responsesRequestSchema>;
