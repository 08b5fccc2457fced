/**
 * The stored content of a request as a conversation, whatever its dialect and operation. Unknown
 * parts are named, never dropped.
 */
import { type AssistantTurn, emptyAnswer } from "../playground/conversation.ts";
import { knownDialect, modules } from "../playground/dialects.ts";
import { messageIn } from "../playground/run.ts";
import { eventsOf } from "../playground/sse.ts";

export interface ContentPart {
  kind: "text" | "reasoning" | "call" | "result" | "data";
  /** The tool of a call or a result; the type of data, such as `image_url`. */
  name: string;
  text: string;
}

export interface ContentMessage {
  /** As the dialect names it: `user`, `assistant`, `model`, `tool` … */
  role: string;
  parts: ContentPart[];
}

interface ContentTool {
  name: string;
  description: string;
}

export interface StoredRequest {
  system: ContentPart[];
  messages: ContentMessage[];
  tools: ContentTool[];
}

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : value === undefined ? [] : [value]);
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const jsonOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const part = (kind: ContentPart["kind"], text: string, name = ""): ContentPart => ({ kind, name, text });

/** Undefined for a body that is not JSON, because its end is missing or it is a form. */
export function storedRequestOf(text: string): StoredRequest | undefined {
  const body = parsed(text);
  if (!isFields(body)) return undefined;
  const system = body.instructions ?? body.system ?? body.systemInstruction ?? body.system_instruction;
  const turns = body.messages ?? body.contents ?? body.input ?? body.prompt ?? body.query;
  const names = toolNamesIn(turns);
  const withToolName = ({ role, parts }: ContentMessage): ContentMessage => ({
    role,
    parts: parts.map((each) => (each.kind === "result" ? { ...each, name: names.get(each.name) ?? each.name } : each)),
  });
  return {
    system: partsOf(system),
    messages: (typeof turns === "string" ? [turns] : listOf(turns)).map((each) => withToolName(messageOf(each))),
    tools: listOf(body.tools).flatMap(toolsOf),
  };
}

/**
 * The parts of an answer, streamed or whole. Empty for answers without text, such as
 * embeddings.
 */
export async function storedAnswerOf(type: string, text: string, dialect: string): Promise<ContentMessage> {
  if (type.startsWith("text/event-stream")) return { role: "assistant", parts: await streamedPartsOf(text, dialect) };
  const body = parsed(text);
  const failure = messageIn(text);
  if (failure !== undefined) return { role: "error", parts: [part("text", failure)] };
  return { role: "assistant", parts: listOf(body).flatMap((each) => (isFields(each) ? answerPartsOf(each) : [])) };
}

async function streamedPartsOf(text: string, dialect: string): Promise<ContentPart[]> {
  const answer = emptyAnswer();
  const read = modules[knownDialect(dialect)].reader(answer);
  for await (const event of eventsOf(new Blob([text]).stream(), () => {})) {
    const value = parsed(event);
    if (value !== undefined) read(value);
  }
  return [...turnPartsOf(answer.turn), ...(answer.error === undefined ? [] : [part("text", answer.error, "error")])];
}

const turnPartsOf = ({ reasoning, text, calls }: AssistantTurn): ContentPart[] => [
  ...(reasoning === "" ? [] : [part("reasoning", reasoning)]),
  ...(text === "" ? [] : [part("text", text)]),
  ...calls.map(({ name, input }) => part("call", input, name)),
];

function answerPartsOf({ choices, output, content, candidates, text }: Fields): ContentPart[] {
  const chosen = [...listOf(choices), ...listOf(candidates)].filter(isFields);
  if (chosen.length > 0)
    return chosen.flatMap(({ message, content: inner, text: completion }) => partsOf(message ?? inner ?? completion));
  return partsOf(output ?? content ?? text);
}

function messageOf(value: unknown): ContentMessage {
  if (!isFields(value)) return { role: "user", parts: partsOf(value) };
  const isResult = value.role === "tool" || value.role === "function";
  const parts = partsOf(value);
  const name = textOf(value.name) || textOf(value.tool_call_id);
  return {
    role: textOf(value.role) || roleOf(textOf(value.type)),
    parts: isResult ? parts.map(({ text }) => part("result", text, name)) : parts,
  };
}

/** The role of an item of OpenAI's Responses that is no message. */
const roleOf = (type: string): string =>
  type.endsWith("_output") ? "tool" : /call$|^reasoning$/.test(type) ? "assistant" : "user";

function partsOf(value: unknown): ContentPart[] {
  if (value === undefined || value === null) return [];
  if (typeof value === "string") return value === "" ? [] : [part("text", value)];
  if (Array.isArray(value)) return value.flatMap(partsOf);
  if (!isFields(value)) return [part("text", String(value))];
  const calls = callsOf(value);
  if (calls.length > 0 || isWrapper(value))
    return [...reasoningOf(value), ...partsOf(value.content ?? value.parts ?? value.refusal), ...calls];
  return [onlyPartOf(value)];
}

const isWrapper = ({ type, content, parts, role, refusal }: Fields): boolean =>
  type !== "tool_result" &&
  (content !== undefined || parts !== undefined || role !== undefined || refusal !== undefined);

const reasoningOf = ({ reasoning_content: reasoning }: Fields): ContentPart[] =>
  typeof reasoning === "string" && reasoning !== "" ? [part("reasoning", reasoning)] : [];

/** The calls that a message of chat completions has beside its content. */
const callsOf = ({ tool_calls: calls }: Fields): ContentPart[] =>
  listOf(calls ?? undefined)
    .filter(isFields)
    .map(({ function: called, custom }) => {
      const { name, arguments: input, input: text } = (called ?? custom ?? {}) as Fields;
      return part("call", textOf(input) || textOf(text), textOf(name));
    });

function onlyPartOf(value: Fields): ContentPart {
  const type = textOf(value.type);
  const { functionCall, functionResponse } = value;
  if (isFields(functionCall)) return part("call", jsonOf(functionCall.args ?? {}), textOf(functionCall.name));
  if (isFields(functionResponse))
    return part("result", jsonOf(functionResponse.response ?? {}), textOf(functionResponse.name));
  if (/^(tool_use|server_tool_use|function_call|custom_tool_call)$/.test(type))
    return part("call", jsonOf(value.input ?? value.arguments ?? {}), textOf(value.name));
  if (type === "tool_result" || type.endsWith("_call_output"))
    return part("result", flatText(value.content ?? value.output), textOf(value.tool_use_id ?? value.call_id));
  if (type === "reasoning" || type === "thinking")
    return part("reasoning", textOf(value.thinking) || flatText(value.summary));
  if (typeof value.text === "string") return part(value.thought === true ? "reasoning" : "text", value.text);
  return part("data", addressIn(value) ?? jsonOf(value), type || (Object.keys(value)[0] ?? ""));
}

/** The names of called tools, by the ids that their results refer to. */
function toolNamesIn(value: unknown, names = new Map<string, string>()): Map<string, string> {
  if (Array.isArray(value)) for (const each of value) toolNamesIn(each, names);
  if (!isFields(value)) return names;
  const name = textOf(value.name) || (isFields(value.function) ? textOf(value.function.name) : "");
  const id = textOf(value.call_id) || textOf(value.id);
  if (name !== "" && id !== "") names.set(id, name);
  for (const inner of [value.content, value.tool_calls]) toolNamesIn(inner, names);
  return names;
}

/** The text in an image or a file that says most: its address, or its size in place of its data. */
function addressIn(value: unknown): string | undefined {
  if (typeof value === "string") return /^(data:|https?:|gs:|\[\d+ bytes\]$)/.test(value) ? value : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  return Object.values(value)
    .map(addressIn)
    .find((address) => address !== undefined);
}

const flatText = (value: unknown): string =>
  partsOf(value)
    .map(({ text }) => text)
    .join("\n");

function toolsOf(value: unknown): ContentTool[] {
  if (!isFields(value)) return [];
  const declared = value.functionDeclarations ?? value.function_declarations;
  if (Array.isArray(declared)) return declared.flatMap(toolsOf);
  const tool = isFields(value.function) ? value.function : value;
  return [
    {
      name: textOf(tool.name) || textOf(tool.type) || (Object.keys(tool)[0] ?? ""),
      description: textOf(tool.description),
    },
  ];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** With line breaks if it is JSON. */
export function readableOf(text: string): string {
  const value = parsed(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}
