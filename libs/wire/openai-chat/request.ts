/** Requests in OpenAI's chat-completions format (https://platform.openai.com/docs/api-reference/chat/create): what is checked, and what is rewritten. */
import Type from "typebox";
import { isNull, objectSpansOf, readSpan, removalsOf, replaceSpans, type Span } from "../json.ts";

const nullable = (type: string) => ({ type: [type, "null"] });
const text = Type.Unsafe<string>({ type: "string" });
/** The member is there and is one of these: what is missing is told as missing, and not by what would follow from it. */
const has = (member: string, ...values: string[]) => ({ required: [member], properties: { [member]: { enum: values } } });

const contentPart = Type.Object(
  {
    type: text,
    text: Type.Optional(text),
    image_url: Type.Optional(Type.Object({ url: Type.String({ minLength: 1 }) })),
  },
  {
    allOf: [
      { if: has("type", "text"), then: { required: ["text"] } },
      { if: has("type", "image_url"), then: { required: ["image_url"] } },
    ],
  },
);

const toolCall = Type.Object({
  type: Type.Optional(Type.Unsafe<string | null>(nullable("string"))),
  id: Type.Optional(text),
  function: Type.Optional(Type.Object({ name: text, arguments: Type.Optional(text) })),
});

const message = Type.Object(
  {
    role: Type.Unsafe<string>({ type: "string", enum: ["system", "developer", "user", "assistant", "tool", "function"] }),
    content: Type.Optional(Type.Unsafe<unknown>({ type: ["string", "array", "null"], items: contentPart })),
    name: Type.Optional(Type.Unsafe<string | null>(nullable("string"))),
    tool_call_id: Type.Optional(text),
    tool_calls: Type.Optional(Type.Unsafe<unknown>({ type: ["array", "null"], items: toolCall })),
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
      }),
    ),
  },
  { allOf: [{ if: has("type", "function"), then: { required: ["function"] } }] },
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
  response_format: optional({ ...nullable("object"), required: ["type"], properties: { type: { type: "string" } } }),
  tools: Type.Optional(Type.Unsafe<unknown>({ type: ["array", "null"], items: tool })),
  tool_choice: optional({ type: ["string", "object", "null"] }),
  parallel_tool_calls: optional(nullable("boolean")),
  stop: optional({ type: ["string", "array", "null"], items: { type: "string" } }),
  user: optional(nullable("string")),
  metadata: optional(nullable("object")),
});

export interface ChatRequest {
  model: string;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean | null } | null;
  n?: number | null;
}

export interface UpstreamChatRequest {
  body: Buffer;
  /** The caller asked for a stream. */
  stream: boolean;
  /** The caller asked for the usage chunk of a stream; without it that chunk is read and not shown. */
  usageShown: boolean;
  /** How many choices the answer has. */
  choices: number;
}

/**
 * The caller's bytes with the upstream's model name, all else as it was but for `stream_options`: a stream is asked for its usage, and what
 * is no stream, or goes to an upstream without `streamUsage`, is sent none. Undefined when the bytes are not a JSON object with a model.
 */
export function upstreamChatRequestOf(bytes: Buffer, model: string, streamUsage: boolean): UpstreamChatRequest | undefined {
  const spans = objectSpansOf(bytes, ["model", "stream", "stream_options", "n"]);
  if (spans?.members.model === undefined) return undefined;
  const { stream: streamSpan, stream_options: options, n: choicesSpan } = spans.members;
  const stream = streamSpan !== undefined && readSpan(bytes, streamSpan) === true;
  const asked = options === undefined ? undefined : usageAskedIn(bytes.subarray(options.start, options.end));
  const choices = choicesSpan === undefined || isNull(bytes, choicesSpan) ? 1 : Number(readSpan(bytes, choicesSpan));

  const name = Buffer.from(JSON.stringify(model));
  const replacements: (Span & { by: Buffer })[] = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by: name }));
  const allOptions = spans.all.filter((member) => member.name === "stream_options");
  if (!stream || !streamUsage) replacements.push(...removalsOf(bytes, allOptions));
  else if (options === undefined) replacements.push({ start: spans.close, end: spans.close, by: Buffer.from(',"stream_options":{"include_usage":true}') });
  else if (asked !== undefined) replacements.push({ ...options, by: asked });
  replacements.sort((left, right) => left.start - right.start);
  return { body: replaceSpans(bytes, replacements), stream, usageShown: options !== undefined && asked === undefined, choices };
}

/** Stream options that ask for the usage, all else as it was; undefined if these do already. */
function usageAskedIn(options: Buffer): Buffer | undefined {
  const spans = objectSpansOf(options, ["include_usage"]);
  if (spans === undefined) return Buffer.from('{"include_usage":true}');
  const own = spans.members.include_usage;
  if (own === undefined)
    return replaceSpans(options, [{ start: spans.close, end: spans.close, by: Buffer.from(`${spans.empty ? "" : ","}"include_usage":true`) }]);
  if (readSpan(options, own) === true) return undefined;
  return replaceSpans(
    options,
    spans.all.map(({ start, end }) => ({ start, end, by: Buffer.from("true") })),
  );
}
