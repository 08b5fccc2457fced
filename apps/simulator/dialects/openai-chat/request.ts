/**
 * Reads a request for a chat completion, as far as the answer depends on it; unknown fields pass.
 */
import type { Static } from "typebox";
import { describedData, describedUrl } from "../../answer/attachments.ts";
import { promptTokensOf } from "../../answer/chunks.ts";
import {
  imageTokens,
  messageTokens,
  promptOf,
  type Question,
  reasoningModel,
  type Tool,
} from "../../answer/question.ts";
import type { Settings } from "../../settings.ts";
import { refuse } from "../dialect.ts";
import { stopsOf } from "../openai.ts";
import { checkFunctionSchema } from "../openai-schema.ts";
import {
  anyOf,
  anything,
  compiled,
  exactly,
  filledText,
  list,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableNumber,
  nullableText,
  object,
  oneOf,
  optional,
  shaped,
  string,
  text,
} from "../shape.ts";
import { checkMessages, type RuledMessage } from "./rules.ts";

/** https://github.com/microsoft/autogen/issues/6377 */
const callId = string({ maxLength: 40 });
/** https://platform.openai.com/docs/api-reference/chat/create */
const shortText = nullable(string({ maxLength: 64 }));
const name = string({ pattern: "^[a-zA-Z0-9_-]{1,64}$" });

const part = object({
  type: text,
  text: optional(text),
  image_url: optional(object({ url: text })),
  file: optional(object({ file_data: optional(text), file_id: optional(text), filename: optional(text) })),
  input_audio: optional(object({ data: text, format: text })),
  video_url: optional(object({ url: text })),
});

const message = object({
  role: oneOf(["developer", "system", "user", "assistant", "tool", "function"]),
  content: nullable(anyOf([text, list(part)])),
  tool_call_id: optional(callId),
  tool_calls: nullable(
    list(
      object({
        id: callId,
        function: optional(object({ name: text })),
        custom: optional(object({ name: text })),
      }),
    ),
  ),
});

/** The tokens of a file: rough but constant. */
const fileTokens = 258;

const namedTool = object({ name: filledText });

const tool = anyOf([
  object({
    type: exactly("function"),
    function: object({ name, parameters: optional(anything), strict: nullableFlag }),
  }),
  object({ type: exactly("custom"), custom: namedTool }),
]);

const toolReference = object({ type: text, function: optional(namedTool), custom: optional(namedTool) });

const chatRequest = object({
  model: filledText,
  messages: list(message, { minItems: 1 }),
  max_tokens: nullableInteger(1),
  max_completion_tokens: nullableInteger(1),
  n: nullableInteger(1, 128),
  temperature: nullableNumber(0, 2),
  top_p: nullableNumber(0, 1),
  presence_penalty: nullableNumber(-2, 2),
  frequency_penalty: nullableNumber(-2, 2),
  user: shortText,
  prompt_cache_key: shortText,
  parallel_tool_calls: nullableFlag,
  reasoning_effort: nullableText,
  response_format: nullable(
    object({
      type: oneOf(["text", "json_object", "json_schema"]),
      json_schema: optional(object({ name, schema: optional(anything) })),
    }),
  ),
  stop: nullable(anyOf([text, list(text)])),
  stream: nullableFlag,
  stream_options: nullable(object({ include_usage: nullableFlag })),
  tool_choice: nullable(
    anyOf([
      oneOf(["none", "auto", "required"]),
      object({
        type: oneOf(["function", "custom", "allowed_tools"]),
        function: optional(namedTool),
        custom: optional(namedTool),
        allowed_tools: optional(object({ mode: oneOf(["auto", "required"]), tools: list(toolReference) })),
      }),
    ]),
  ),
  tools: nullable(list(tool, { maxItems: 1_024 })),
});

type ChatRequest = Static<typeof chatRequest>;
type Message = ChatRequest["messages"][number];

const checked = compiled(chatRequest);

export interface ChatQuestion {
  model: string;
  stream: boolean;
  includeUsage: boolean;
  question: Question;
}

/** `digest` is the hex SHA-256 of the body. */
export function chatQuestionOf(raw: unknown, digest: string, settings: Settings): ChatQuestion {
  const body = shaped(checked, raw);
  checkMessages(body.messages as RuledMessage[], settings);
  for (const [index, tool] of (body.tools ?? []).entries())
    if (tool.type === "function") {
      const { name, parameters, strict } = tool.function;
      checkFunctionSchema(name, parameters, strict === true, `tools[${index}].function.parameters`);
    }
  const { messages } = body;
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  const question = messages[lastUser];
  const toolTokens = body.tools ? promptTokensOf(JSON.stringify(body.tools)) : 0;
  return {
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    question: {
      digest,
      userText: question ? textOf(question) : "",
      images: question ? imagesOf(question) : [],
      documents: question ? documentsOf(question) : [],
      toolResults: resultsOf(messages, lastUser),
      ...callableOf(body, (body.tools ?? []).map(toolOf)),
      parallelCalls: body.parallel_tool_calls ?? true,
      format: formatOf(body),
      effort: body.reasoning_effort ?? (body.model.startsWith(reasoningModel) ? "medium" : undefined),
      outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? undefined,
      stops: stopsOf(body.stop),
      choices: body.n ?? 1,
      ...promptOf(messages.map(tokensOf), toolTokens),
    },
  };
}

const toolOf = (offered: NonNullable<ChatRequest["tools"]>[number]): Tool =>
  offered.type === "function"
    ? { name: offered.function.name, schema: offered.function.parameters ?? { type: "object" }, takes: "json" }
    : { name: offered.custom.name, schema: undefined, takes: "text" };

function callableOf({ tool_choice: choice }: ChatRequest, tools: Tool[]): Pick<Question, "tools" | "calling"> {
  if (choice === undefined || choice === null) return { tools, calling: "auto" };
  if (typeof choice === "string") {
    if (choice === "required" && tools.length === 0)
      refuse("tool_choice is required, but there are no tools.", "tool_choice");
    return { tools, calling: choice };
  }
  const references = choice.type === "allowed_tools" ? (choice.allowed_tools?.tools ?? []) : [choice];
  const names = references.map((reference) => (reference.function ?? reference.custom)?.name);
  const chosen = tools.filter(({ name }) => names.includes(name));
  if (chosen.length === 0) refuse(`tool_choice names no tool of tools: ${names.join(", ")}.`, "tool_choice");
  return {
    tools: chosen,
    calling: choice.type === "allowed_tools" ? (choice.allowed_tools?.mode ?? "auto") : "required",
  };
}

function formatOf({ response_format: format }: ChatRequest): Question["format"] {
  if (format?.type === "json_object") return { kind: "json" };
  if (format?.type !== "json_schema") return { kind: "text" };
  if (format.json_schema === undefined)
    return refuse("response_format.json_schema is missing.", "response_format.json_schema");
  return { kind: "schema", schema: format.json_schema.schema ?? {} };
}

const partsOf = ({ content }: Message) =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);

const textOf = (message: Message) =>
  partsOf(message)
    .map(({ text }) => text ?? "")
    .join("");

function imagesOf({ content }: Message): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap(({ image_url: image }) => (image === undefined ? [] : [describedUrl(image.url)]));
}

/** Files, recordings and films. https://platform.openai.com/docs/guides/pdf-files */
function documentsOf({ content }: Message): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap(({ file, input_audio: audio, video_url: video }) => {
    if (audio !== undefined) return [describedData(`audio/${audio.format}`, audio.data)];
    if (video !== undefined) return [describedUrl(video.url)];
    if (file === undefined) return [];
    return [file.file_data === undefined ? `file ${file.file_id}` : describedUrl(file.file_data)];
  });
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

const tokensOf = (message: Message) =>
  messageTokens +
  promptTokensOf(textOf(message)) +
  imageTokens * imagesOf(message).length +
  fileTokens * documentsOf(message).length +
  (message.tool_calls ? promptTokensOf(JSON.stringify(message.tool_calls)) : 0);
