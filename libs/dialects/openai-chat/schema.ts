/**
 * The schemas of requests in OpenAI's chat-completions format:
 * https://platform.openai.com/docs/api-reference/chat/create Servers of this format accept more
 * than OpenAI does, so a request for one of them is checked only for the fields that the gateway
 * itself reads.
 */
import Type from "typebox";
import {
  cacheOptions,
  has,
  int32Max,
  modelName,
  name,
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

const isOrLacks = (member: string, ...values: (string | null)[]) => ({ properties: { [member]: { enum: values } } });
const lacksAll = (...members: string[]) => ({ not: { anyOf: members.map((member) => ({ required: [member] })) } });

const address = {
  type: ["string", "object"],
  minLength: 1,
  required: ["url"],
  properties: { url: { type: "string", minLength: 1 }, detail: optionalText },
};

/** A member, its schema, and the types of parts that need it. Others may have it as null. */
const partMembers: readonly [member: string, schema: object, ...types: string[]][] = [
  ["text", text, "text", "input_text", "output_text"],
  ["image_url", address, "image_url", "input_image"],
  ["input_audio", Type.Object({ data: Type.String({ minLength: 1 }), format: text }), "input_audio"],
  ["file", Type.Object(optionalTexts("file_data", "file_url", "file_id", "filename")), "file"],
  ["document_url", address, "document_url"],
  ["file_url", address, "file_url"],
  ["refusal", text, "refusal"],
];

const contentPart = Type.Object(
  { type: text, prompt_cache_breakpoint: cacheOptions },
  {
    allOf: partMembers.map(([member, schema, ...types]) =>
      // LangChain's own parts have the bytes or the address beside the type.
      whenWith({ allOf: [has("type", ...types), lacksAll("base64", "data", "url")] }, { [member]: schema }, member),
    ),
  },
);

/** Some agents send one part without a list: https://github.com/chenyme/grok2api/pull/222 */
const partsOrText = (...types: string[]) => ({
  type: ["string", "array", "object", ...types],
  items: contentPart,
  if: { type: "object" },
  then: contentPart,
});

const namedOrNull = objectWith({ name: text }, "name");

const toolCall = Type.Object(
  {
    ...optionalTexts("type", "id"),
    function: optional(namedOrNull),
    custom: optional(namedOrNull),
  },
  {
    allOf: [when(isOrLacks("type", "function", null), "function"), when(has("type", "custom"), "custom")],
  },
);

const message = Type.Object(
  {
    role: Type.Unsafe<string>({
      type: "string",
      enum: ["system", "developer", "user", "assistant", "tool", "function"],
    }),
    ...optionalTexts("name", "tool_call_id"),
    tool_calls: optionalList(toolCall),
    refusal: optionalText,
    audio: optionalObject({ id: text }, "id"),
    function_call: optionalObject({ name: text }, "name"),
  },
  {
    allOf: [
      when(has("role", "function"), "name"),
      // A tool that returns nothing, and an answer that was interrupted, have no content in some
      // languages: https://github.com/latitude-dev/latitude-llm/issues/810
      whenWith(has("role", "tool", "function"), { content: partsOrValue(contentPart) }),
      whenWith(has("role", "assistant"), { content: partsOrText("null") }),
      whenWith(has("role", "system", "developer", "user"), { content: partsOrText() }, "content"),
    ],
  },
);

/**
 * Agents also send tools in the shapes of other dialects: flat, with an `input_schema`, or without
 * a type.
 */
const isNested = (type: "function" | "custom") => when({ allOf: [lacksAll("name"), has("type", type)] }, type);
const grammar = { type: "object", required: ["definition", "syntax"], properties: { definition: text, syntax: text } };

const tool = Type.Object(
  {
    type: optionalText,
    function: optionalObject({ name, description: optionalText, strict: optionalFlag }, "name"),
    custom: optionalObject(
      {
        name,
        description: optionalText,
        format: optional(typedOrNull({}, whenWith(has("type", "grammar"), { grammar }, "grammar"))),
      },
      "name",
    ),
    name: optional(nullable("string", { minLength: 1 })),
    description: optionalText,
    strict: optionalFlag,
  },
  { allOf: [isNested("function"), isNested("custom")] },
);

const named = { type: "object", required: ["name"], properties: { name: text } };
const namedTools = { function: namedOrNull, custom: namedOrNull };

/** A mode, or an object with the members that its type requires. */
const toolChoice = {
  type: ["string", "object", "null"],
  if: { type: "object" },
  then: typed(
    {
      ...namedTools,
      name: nullable("string"),
      allowed_tools: objectWith({ mode: text, tools: { type: "array", items: typed(namedTools) } }, "mode", "tools"),
    },
    {
      allOf: [
        ...["function", "custom"].map((type) => when({ allOf: [has("type", type), lacksAll("name")] }, type)),
        when({ allOf: [has("type", "allowed_tools"), lacksAll("tools")] }, "allowed_tools"),
      ],
    },
  ),
};

const asksTopLogprobs = { required: ["top_logprobs"], properties: { top_logprobs: { type: "integer", minimum: 1 } } };

/**
 * The fields that the gateway itself reads for every upstream: to choose a target, to reserve
 * tokens and to relay the answer.
 */
const read = {
  model: modelName,
  stream: optionalFlag,
  stream_options: optionalObject({ include_usage: optionalFlag }),
  n: optionalInteger(1, 128),
  /** `true` is replaced by `false`, so a value that a server takes for `true` must not pass. */
  store: optionalFlag,
};

/**
 * Agents also send bodies of Responses, with an `input` in place of messages (foreign-shape.ts).
 */
export const chatRequestSchema = Type.Object(
  {
    ...read,
    messages: Type.Optional(Type.Array(Type.Object({}), { minItems: 1 })),
    max_completion_tokens: optional(nullable("integer")),
    max_tokens: optional(nullable("integer")),
  },
  when({ allOf: [{ required: ["model"] }, lacksAll("input")] }, "messages"),
);

/** A limit of output tokens; -1 means none. */
const tokensMax = optionalInteger(-1, int32Max);

/**
 * The schema for requests to upstreams of other dialects. Checks the known fields for type and
 * range. Unknown fields pass, and so do unknown values of fields to which a vendor may add values.
 * `null` counts as absent for optional fields.
 */
export const readableRequestSchema = Type.Object(
  {
    ...read,
    messages: Type.Array(message, { minItems: 1 }),
    stream_options: optionalObject({ include_usage: optionalFlag, include_obfuscation: optionalFlag }),
    max_completion_tokens: tokensMax,
    max_tokens: tokensMax,
    temperature: optionalNumber(0, 2),
    top_p: optionalNumber(0, 1),
    frequency_penalty: optionalNumber(-2, 2),
    presence_penalty: optionalNumber(-2, 2),
    top_logprobs: optionalInteger(0, 20),
    logprobs: optionalFlag,
    logit_bias: optional({
      ...nullable("object"),
      additionalProperties: { type: "number", minimum: -100, maximum: 100 },
    }),
    seed: optionalInteger(-(2 ** 63), 2 ** 63),
    ...optionalTexts("reasoning_effort", "verbosity"),
    response_format: optional(
      typedOrNull(
        {
          json_schema: objectWith({
            name: nullable("string", { minLength: 1 }),
            description: optionalText,
            schema: optionalObject(),
            // https://lmstudio.ai/docs/developer/openai-compat/structured-output has "true".
            strict: { type: ["boolean", "string", "null"] },
          }),
          schema: nullable("object"),
          response_schema: nullable("object"),
        },
        when({ allOf: [has("type", "json_schema"), lacksAll("schema")] }, "json_schema"),
      ),
    ),
    tools: optionalList(tool),
    tool_choice: optional(toolChoice),
    parallel_tool_calls: optionalFlag,
    functions: optionalList(named),
    function_call: optional({ type: ["string", "object", "null"], if: { type: "object" }, then: named }),
    stop: optional({ type: ["string", "array", "null"], items: { type: "string" } }),
    modalities: optionalList(text),
    audio: optionalObject(
      {
        format: text,
        voice: {
          type: ["string", "object"],
          if: { type: "object" },
          then: { required: ["id"], properties: { id: text } },
        },
      },
      "format",
      "voice",
    ),
    prediction: optionalObject(
      { type: text, content: { type: ["string", "array"], items: { type: "object" } } },
      "type",
      "content",
    ),
    web_search_options: optionalObject({ search_context_size: optionalText, user_location: optionalObject() }),
    moderation: optionalObject({ model: optionalText, policy: optionalObject() }),
    // Every upstream of another dialect goes without it; its caller may mean it for the gateway.
    metadata: optionalObject(),
    ...optionalTexts("service_tier", "user"),
    safety_identifier: safetyIdentifier,
    prompt_cache_key: optionalText,
    prompt_cache_options: cacheOptions,
    prompt_cache_retention: optionalText,
  },
  { allOf: [{ if: asksTopLogprobs, then: { required: ["logprobs"], properties: { logprobs: { const: true } } } }] },
);
