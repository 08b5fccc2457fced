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
  optionalTexts,
  partsOrValue,
  safetyIdentifier,
  text,
  typed,
  typedOrNull,
  when,
  whenWith,
} from "../request-schema/schema-parts.ts";

const lacks = (member: string) => ({ properties: { [member]: { type: "null" } } });

const contentPart = Type.Object(
  {
    type: text,
    ...optionalTexts("file_id", "file_data", "file_url", "filename", "detail"),
    annotations: optionalList({ type: "object" }),
    prompt_cache_breakpoint: cacheOptions,
  },
  {
    allOf: [
      whenWith(has("type", "input_text", "output_text", "text", "summary_text", "reasoning_text"), { text }, "text"),
      whenWith(has("type", "refusal"), { refusal: text }, "refusal"),
      {
        if: has("type", "image_url"),
        then: { required: ["image_url"], properties: { image_url: { type: ["string", "object"] } } },
        else: { properties: { image_url: optionalText } },
      },
      whenWith(
        has("type", "input_audio"),
        { input_audio: Type.Object({ data: Type.String({ minLength: 1 }), format: text }) },
        "input_audio",
      ),
    ],
  },
);

const toolMembers = {
  type: text,
  name: optional(nullable("string", { minLength: 1, maxLength: 256 })),
  description: optionalText,
  parameters: optional(looseParameters),
  strict: optionalFlag,
  format: optional(
    typedOrNull({}, whenWith(has("type", "grammar"), { syntax: text, definition: text }, "syntax", "definition")),
  ),
};
const namedTool = whenWith(has("type", "function", "custom"), { name: text }, "name");
const tool = Type.Object(
  { ...toolMembers, tools: optionalList(Type.Object(toolMembers, { allOf: [namedTool] })) },
  { allOf: [namedTool, whenWith(has("type", "namespace"), { name: text }, "name")] },
);

const reference = { name: optionalText };

/** A mode, or an object with the members that its type requires. */
const toolChoice = {
  type: ["string", "object", "null"],
  if: { type: "object" },
  then: typed(reference, {
    allOf: [
      when(has("type", "function", "custom"), "name"),
      whenWith(
        has("type", "allowed_tools"),
        { mode: text, tools: { type: "array", items: typed(reference) } },
        "mode",
        "tools",
      ),
    ],
  }),
};

const partsOrText = { type: ["string", "array"], items: contentPart };

const item = Type.Object(
  {
    ...optionalTexts("type", "id"),
    role: optional({ enum: ["user", "assistant", "system", "developer", null] }),
    content: optional({ type: ["string", "array", "null"], items: contentPart }),
    ...optionalTexts("name", "namespace", "call_id"),
    summary: optionalList(contentPart),
    ...optionalTexts("encrypted_content", "status", "phase"),
  },
  {
    allOf: [
      when({ allOf: [lacks("type"), lacks("id")] }, "role", "content"),
      whenWith(has("type", "message"), { content: partsOrText }, "role", "content"),
      whenWith(has("type", "function_call"), { call_id: text, name: text }, "call_id", "name", "arguments"),
      whenWith(has("type", "custom_tool_call"), { call_id: text, name: text }, "call_id", "name", "input"),
      whenWith(
        has("type", "function_call_output", "custom_tool_call_output"),
        { call_id: text, output: partsOrValue(contentPart) },
        "call_id",
        "output",
      ),
      when(has("type", "reasoning"), "summary"),
      whenWith(
        has("type", "additional_tools", "tool_search_output"),
        { tools: { type: "array", items: tool } },
        "tools",
      ),
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
    input: Type.Optional(Type.Unsafe<unknown>({ type: ["string", "array", "null"], items: item })),
    stream: Type.Optional(Type.Unsafe<boolean | null>(optionalFlag)),
    instructions: optionalText,
    max_output_tokens: optionalInteger(1, int32Max),
    max_tool_calls: optionalInteger(1, int32Max),
    temperature: optionalNumber(0, 2),
    top_p: optionalNumber(0, 1),
    top_logprobs: optionalInteger(0, 20),
    parallel_tool_calls: optionalFlag,
    tools: optionalList(tool),
    tool_choice: optional(toolChoice),
    reasoning: optionalObject(optionalTexts("effort", "summary", "generate_summary", "context", "mode")),
    text: optionalObject({
      verbosity: optionalText,
      format: typedOrNull(
        {
          name: nullable("string", { minLength: 1 }),
          description: optionalText,
          schema: optionalObject(),
          strict: optionalFlag,
        },
        when(has("type", "json_schema"), "name", "schema"),
      ),
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
    stream_options: optionalObject({ include_obfuscation: optionalFlag }),
    client_metadata: optionalObject(),
    moderation: optionalObject({ model: optionalText, policy: optionalObject() }),
    access_programs: optionalObject({ cyber: optionalText }),
    image: optionalObject({ context_compression: optionalText }),
    personality: optionalText,
    safety_identifier: safetyIdentifier,
    ...optionalTexts("user", "service_tier", "truncation"),
  },
  {
    if: { allOf: [lacks("previous_response_id"), lacks("conversation")] },
    then: { required: ["input"], properties: { input: { type: ["string", "array"] } } },
  },
);
