/**
 * The schemas of requests in OpenAI's Responses format:
 * https://platform.openai.com/docs/api-reference/responses/create
 */
import Type from "typebox";
import {
  cacheOptions,
  has,
  int32Max,
  looseParameters,
  metadata,
  modelName,
  nullable,
  objectWith,
  optional,
  optionalFlag,
  optionalInteger,
  optionalList,
  optionalNumber,
  optionalObject,
  optionalText,
  partsOrValue,
  safetyIdentifier,
  text,
  when,
} from "../request-schema/schema-parts.ts";

const lacks = (member: string) => ({ properties: { [member]: { type: "null" } } });

const contentPart = Type.Object(
  {
    type: text,
    text: Type.Optional(text),
    refusal: Type.Optional(text),
    image_url: optionalText,
    file_id: optionalText,
    file_data: optionalText,
    file_url: optionalText,
    filename: optionalText,
    detail: optionalText,
    input_audio: Type.Optional(Type.Object({ data: Type.String({ minLength: 1 }), format: text })),
    annotations: optionalList({ type: "object" }),
    prompt_cache_breakpoint: cacheOptions,
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
  description: optionalText,
  parameters: optional(looseParameters),
  strict: optionalFlag,
  format: optional({
    ...objectWith({ type: text, syntax: text, definition: text }, "type"),
    ...when(has("type", "grammar"), "syntax", "definition"),
  }),
};
const namedTool = when(has("type", "function", "custom"), "name");
const tool = Type.Object(
  { ...toolMembers, tools: optionalList(Type.Object(toolMembers, { allOf: [namedTool] })) },
  { allOf: [namedTool, when(has("type", "namespace"), "name")] },
);

const reference = { type: "object", required: ["type"], properties: { type: text, name: optionalText } };

/** A mode, or an object with the members that its type requires. */
const toolChoice = {
  type: ["string", "object", "null"],
  if: { type: "object" },
  then: {
    ...reference,
    properties: { ...reference.properties, mode: text, tools: { type: "array", items: reference } },
    allOf: [when(has("type", "function", "custom"), "name"), when(has("type", "allowed_tools"), "mode", "tools")],
  },
};

const partsOrText = { type: ["string", "array"], items: contentPart };

const item = Type.Object(
  {
    type: optionalText,
    id: optionalText,
    role: Type.Optional(Type.Unsafe<string>({ type: "string", enum: ["user", "assistant", "system", "developer"] })),
    content: optional({ type: ["string", "array", "null"], items: contentPart }),
    name: optionalText,
    namespace: optionalText,
    call_id: optionalText,
    summary: optionalList(contentPart),
    encrypted_content: optionalText,
    status: optionalText,
    phase: optionalText,
  },
  {
    allOf: [
      when({ allOf: [lacks("type"), lacks("id")] }, "role", "content"),
      { if: has("type", "message"), then: { required: ["role", "content"], properties: { content: partsOrText } } },
      {
        if: has("type", "function_call"),
        then: {
          required: ["call_id", "name", "arguments"],
          properties: { call_id: text, name: text },
        },
      },
      {
        if: has("type", "custom_tool_call"),
        then: { required: ["call_id", "name", "input"], properties: { call_id: text, name: text } },
      },
      {
        if: has("type", "function_call_output", "custom_tool_call_output"),
        then: { required: ["call_id", "output"], properties: { call_id: text, output: partsOrValue(contentPart) } },
      },
      when(has("type", "reasoning"), "summary"),
      {
        if: has("type", "additional_tools", "tool_search_output"),
        then: { required: ["tools"], properties: { tools: { type: "array", items: tool } } },
      },
    ],
  },
);

/**
 * Items that a conversation stores. Unlike in a request, a type must be known: each later request
 * would be refused for another one. References are not stored, nor is a request for compaction.
 * https://platform.openai.com/docs/api-reference/conversations/create-items
 */
export const conversationItem = {
  allOf: [
    {
      properties: {
        type: {
          enum: [
            "message",
            "reasoning",
            "compaction",
            ...["function", "custom_tool", "computer", "shell", "local_shell", "apply_patch"].flatMap((tool) => [
              `${tool}_call`,
              `${tool}_call_output`,
            ]),
            ...["file_search", "web_search", "code_interpreter", "image_generation", "mcp", "tool_search"].map(
              (tool) => `${tool}_call`,
            ),
            "tool_search_output",
            "mcp_list_tools",
            "mcp_approval_request",
            "mcp_approval_response",
            "additional_tools",
            "configuration_update",
            "program",
            "program_output",
            null,
          ],
        },
      },
    },
    when(lacks("type"), "role", "content"),
    item,
  ],
};

/**
 * Checks the known fields for type and range. Unknown fields pass, and so do unknown values of
 * fields to which the vendor may add values. `null` counts as absent for optional fields. No
 * defaults and no coercion: a check never changes the caller's body. Also serves compaction and
 * token counting, which take the same fields.
 */
export const responsesRequestSchema = Type.Object(
  {
    model: modelName,
    input: Type.Optional(Type.Unsafe<unknown>({ type: ["string", "array"], items: item })),
    stream: Type.Optional(Type.Unsafe<boolean | null>(nullable("boolean"))),
    instructions: optionalText,
    max_output_tokens: optionalInteger(1, int32Max),
    max_tool_calls: optionalInteger(1, int32Max),
    temperature: optionalNumber(0, 2),
    top_p: optionalNumber(0, 1),
    top_logprobs: optionalInteger(0, 20),
    parallel_tool_calls: optionalFlag,
    tools: optionalList(tool),
    tool_choice: optional(toolChoice),
    reasoning: optionalObject(
      Object.fromEntries(
        ["effort", "summary", "generate_summary", "context", "mode"].map((name) => [name, nullable("string")]),
      ),
    ),
    text: optionalObject({
      verbosity: nullable("string"),
      format: {
        ...objectWith(
          {
            type: text,
            name: nullable("string", { minLength: 1 }),
            description: nullable("string"),
            schema: nullable("object"),
            strict: nullable("boolean"),
          },
          "type",
        ),
        ...when(has("type", "json_schema"), "name", "schema"),
      },
    }),
    metadata,
    include: optionalList(text),
    store: optionalFlag,
    background: optionalFlag,
    previous_response_id: optionalText,
    conversation: optional({ ...objectWith({ id: text }, "id"), type: ["string", "object", "null"] }),
    prompt: optionalObject(),
    prompt_cache_key: optionalText,
    prompt_cache_options: cacheOptions,
    prompt_cache_retention: optionalText,
    context_management: optionalList({ type: "object" }),
    stream_options: optionalObject({ include_obfuscation: nullable("boolean") }),
    client_metadata: optionalObject(),
    moderation: optionalObject({ model: nullable("string"), policy: nullable("object") }),
    access_programs: optionalObject({ cyber: nullable("string") }),
    image: optionalObject({ context_compression: nullable("string") }),
    personality: optionalText,
    safety_identifier: safetyIdentifier,
    user: optionalText,
    service_tier: optionalText,
    truncation: optionalText,
  },
  { if: { allOf: [lacks("previous_response_id"), lacks("conversation")] }, then: { required: ["input"] } },
);
