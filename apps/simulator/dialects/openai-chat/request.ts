/** Reads a request for a chat completion, as far as the answer depends on it; unknown fields pass. */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { describedUrl } from "../../answer/attachments.ts";
import { promptTokensOf } from "../../answer/chunks.ts";
import { imageTokens, messageTokens, type Question, reasoningModel, type Tool } from "../../answer/question.ts";
import type { Refused } from "../dialect.ts";
import { faultIn } from "../shape.ts";

const optional = Type.Optional;
const nullable = <Schema extends Type.TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));
const anything = Type.Unknown();

const part = Type.Object({
  type: Type.String(),
  text: optional(Type.String()),
  image_url: optional(Type.Object({ url: Type.String() })),
});

const message = Type.Object({
  role: Type.Enum(["developer", "system", "user", "assistant", "tool", "function"]),
  content: optional(Type.Union([Type.String(), Type.Null(), Type.Array(part)])),
  tool_call_id: optional(Type.String()),
  tool_calls: nullable(
    Type.Array(
      Type.Object({
        id: Type.String(),
        function: optional(Type.Object({ name: Type.String() })),
        custom: optional(Type.Object({ name: Type.String() })),
      }),
    ),
  ),
});

const toolName = Type.String({ minLength: 1 });
const namedTool = Type.Object({ name: toolName });

const tool = Type.Union([
  Type.Object({
    type: Type.Literal("function"),
    function: Type.Object({ name: toolName, parameters: optional(anything) }),
  }),
  Type.Object({ type: Type.Literal("custom"), custom: namedTool }),
]);

const toolReference = Type.Object({ type: Type.String(), function: optional(namedTool), custom: optional(namedTool) });

const chatRequest = Type.Object({
  model: Type.String({ minLength: 1 }),
  messages: Type.Array(message, { minItems: 1 }),
  max_tokens: nullable(Type.Integer({ minimum: 1 })),
  max_completion_tokens: nullable(Type.Integer({ minimum: 1 })),
  n: nullable(Type.Integer({ minimum: 1, maximum: 128 })),
  parallel_tool_calls: nullable(Type.Boolean()),
  reasoning_effort: nullable(Type.String()),
  response_format: nullable(
    Type.Object({
      type: Type.Enum(["text", "json_object", "json_schema"]),
      json_schema: optional(Type.Object({ name: Type.String(), schema: optional(anything) })),
    }),
  ),
  stop: nullable(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 4 })])),
  stream: nullable(Type.Boolean()),
  stream_options: nullable(Type.Object({ include_usage: nullable(Type.Boolean()) })),
  tool_choice: nullable(
    Type.Union([
      Type.Enum(["none", "auto", "required"]),
      Type.Object({
        type: Type.Enum(["function", "custom", "allowed_tools"]),
        function: optional(namedTool),
        custom: optional(namedTool),
        allowed_tools: optional(
          Type.Object({ mode: Type.Enum(["auto", "required"]), tools: Type.Array(toolReference) }),
        ),
      }),
    ]),
  ),
  tools: nullable(Type.Array(tool, { maxItems: 1_024 })),
});

type ChatRequest = Static<typeof chatRequest>;
type Message = ChatRequest["messages"][number];

const checked = Compile(chatRequest);

export interface ChatQuestion {
  kind: "question";
  model: string;
  stream: boolean;
  includeUsage: boolean;
  question: Question;
}

/** `digest` is the hex SHA-256 of the body. */
export function chatQuestionOf(body: unknown, digest: string): ChatQuestion | Refused {
  if (!checked.Check(body)) return faultIn(checked.Errors(body));
  const allTools = (body.tools ?? []).map(toolOf);
  const choice = toolChoiceOf(body, allTools);
  if (choice.kind === "refused") return choice;
  const format = formatOf(body);
  if (format.kind === "refused") return format;
  const { messages } = body;
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  const asked = messages[lastUser];
  const tokens = messages.map(tokensOf);
  const toolTokens = body.tools ? promptTokensOf(JSON.stringify(body.tools)) : 0;
  const promptTokens = tokens.reduce((sum, count) => sum + count, toolTokens);
  return {
    kind: "question",
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    question: {
      digest,
      userText: asked ? textOf(asked) : "",
      images: asked ? imagesOf(asked) : [],
      toolResults: resultsOf(messages, lastUser),
      tools: choice.tools,
      calling: choice.calling,
      parallelCalls: body.parallel_tool_calls ?? true,
      format,
      effort: body.reasoning_effort ?? (body.model.startsWith(reasoningModel) ? "medium" : undefined),
      outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? undefined,
      stops: typeof body.stop === "string" ? [body.stop] : (body.stop ?? []),
      choices: body.n ?? 1,
      promptTokens,
      earlierTokens: promptTokens - (tokens.at(-1) ?? 0),
    },
  };
}

const toolOf = (offered: NonNullable<ChatRequest["tools"]>[number]): Tool =>
  offered.type === "function"
    ? { name: offered.function.name, schema: offered.function.parameters ?? { type: "object" }, takes: "json" }
    : { name: offered.custom.name, schema: undefined, takes: "text" };

function toolChoiceOf(
  { tool_choice: choice }: ChatRequest,
  tools: Tool[],
): { kind: "tools"; tools: Tool[]; calling: Question["calling"] } | Refused {
  if (choice === undefined || choice === null) return { kind: "tools", tools, calling: "auto" };
  if (typeof choice === "string") {
    if (choice === "required" && tools.length === 0)
      return {
        kind: "refused",
        status: 400,
        message: "tool_choice is required, but there are no tools.",
        param: "tool_choice",
      };
    return { kind: "tools", tools, calling: choice };
  }
  const references = choice.type === "allowed_tools" ? (choice.allowed_tools?.tools ?? []) : [choice];
  const names = references.map((reference) => (reference.function ?? reference.custom)?.name);
  const chosen = tools.filter(({ name }) => names.includes(name));
  if (chosen.length === 0)
    return {
      kind: "refused",
      status: 400,
      message: `tool_choice names no tool of tools: ${names.join(", ")}.`,
      param: "tool_choice",
    };
  return {
    kind: "tools",
    tools: chosen,
    calling: choice.type === "allowed_tools" ? (choice.allowed_tools?.mode ?? "auto") : "required",
  };
}

function formatOf({ response_format: format }: ChatRequest): Question["format"] | Refused {
  if (format?.type === "json_object") return { kind: "json" };
  if (format?.type !== "json_schema") return { kind: "text" };
  if (format.json_schema === undefined)
    return {
      kind: "refused",
      status: 400,
      message: "response_format.json_schema is missing.",
      param: "response_format.json_schema",
    };
  return { kind: "schema", schema: format.json_schema.schema ?? {} };
}

const partsOf = ({ content }: Message) =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);

const textOf = (message: Message): string =>
  partsOf(message)
    .map(({ text }) => text ?? "")
    .join("");

function imagesOf({ content }: Message): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap(({ image_url: image }) => (image === undefined ? [] : [describedUrl(image.url)]));
}

function resultsOf(messages: Message[], lastUser: number): Question["toolResults"] {
  const names = new Map<string, string>();
  for (const { tool_calls: calls } of messages)
    for (const call of calls ?? []) names.set(call.id, (call.function ?? call.custom)?.name ?? call.id);
  return messages
    .slice(lastUser + 1)
    .filter(({ role }) => role === "tool")
    .map((message) => ({
      name: names.get(message.tool_call_id ?? "") ?? message.tool_call_id ?? "",
      text: textOf(message),
    }));
}

const tokensOf = (message: Message): number =>
  messageTokens +
  promptTokensOf(textOf(message)) +
  imageTokens * imagesOf(message).length +
  (message.tool_calls ? promptTokensOf(JSON.stringify(message.tool_calls)) : 0);
