/** Reads a request for a response, as far as the answer depends on it; unknown fields pass. */
import type { Static } from "typebox";
import { promptTokensOf } from "../../answer/chunks.ts";
import { messageTokens, promptOf, type Question, reasoningModel, type Tool } from "../../answer/question.ts";
import { checkFunctionSchema } from "../openai-schema.ts";
import {
  anyOf,
  anything,
  compiled,
  integer,
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
import { itemsIn, type ReadItem } from "./input.ts";
import type { ReasoningWanted } from "./items.ts";
import { missing, type Reader, readerAmong, readerOf, refused, toolName, unsupported } from "./reading.ts";

/** Reads the tools that may be called, and whether a call is required. */

const toolChoice = anyOf([
  oneOf(["none", "auto", "required"]),
  object({
    type: text,
    name: optional(text),
    mode: optional(oneOf(["auto", "required"])),
    tools: optional(list(object({ type: text, name: optional(text) }))),
  }),
]);

/** The upstream's own tools and other kinds that are accepted but never called. */
const otherTypes =
  "apply_patch code_interpreter computer computer_use_preview file_search image_generation local_shell mcp namespace programmatic_tool_calling shell tool_search web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11".split(
    " ",
  );

const readers: Record<string, Reader<Tool>> = {
  function: readerOf(
    object({ name: toolName, parameters: nullable(object({})), strict: nullableFlag }),
    ({ name, parameters, strict }, at) => {
      checkFunctionSchema(name, parameters, strict === true, `${at}.parameters`);
      return { name, schema: parameters ?? { type: "object" }, takes: "json" };
    },
  ),
  custom: readerOf(object({ name: toolName }), ({ name }) => ({
    name,
    schema: undefined,
    takes: "text",
  })),
};

type Choice = Static<typeof toolChoice>;

function toolsIn(offered: { type: string }[], choice: Choice): Pick<Question, "tools" | "calling"> {
  const tools: Tool[] = [];
  for (const [index, one] of offered.entries()) {
    const read = readerAmong(readers, one.type);
    if (read === undefined && !otherTypes.includes(one.type))
      unsupported(`tools[${index}].type`, one.type, [...Object.keys(readers), ...otherTypes]);
    const tool = read?.(one, `tools[${index}]`);
    if (tool !== undefined) tools.push(tool);
  }
  if (typeof choice === "string") {
    if (choice === "required" && offered.length === 0)
      refused("tool_choice", "Tool choice 'required' must be specified with 'tools' parameter.");
    return { tools, calling: choice };
  }
  if (otherTypes.includes(choice.type)) return { tools, calling: "auto" };
  const references = choice.type === "allowed_tools" ? (choice.tools ?? []) : [choice];
  const chosen = tools.filter(({ name, takes }) =>
    references.some((one) => one.name === name && (one.type === "custom") === (takes === "text")),
  );
  if (chosen.length === 0)
    refused(
      "tool_choice",
      `Tool choice '${references.map(({ name, type }) => name ?? type).join(", ")}' not found in 'tools' parameter.`,
    );
  return {
    tools: chosen,
    calling: choice.type === "allowed_tools" ? (choice.mode ?? "auto") : "required",
  };
}

/** https://platform.openai.com/docs/api-reference/responses/create */
const shortText = nullable(string({ maxLength: 64 }));

const format = object({
  type: oneOf(["text", "json_object", "json_schema"]),
  name: optional(string({ pattern: "^[a-zA-Z0-9_-]{1,64}$" })),
  schema: optional(anything),
});

const responsesRequest = object({
  model: nullableText,
  input: nullable(anyOf([text, list(object({}))])),
  instructions: nullableText,
  max_output_tokens: nullableInteger(16),
  max_tool_calls: nullable(integer()),
  metadata: nullable(object({})),
  include: nullable(list(text)),
  parallel_tool_calls: nullableFlag,
  previous_response_id: nullableText,
  conversation: nullable(anything),
  prompt: nullable(anything),
  background: nullableFlag,
  context_management: nullable(list(object({ type: text, compact_threshold: nullableInteger(1) }))),
  prompt_cache_key: shortText,
  reasoning: nullable(
    object({
      effort: nullable(oneOf(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
      summary: nullable(oneOf(["auto", "concise", "detailed"])),
    }),
  ),
  safety_identifier: shortText,
  store: nullableFlag,
  stream: nullableFlag,
  temperature: nullableNumber(0, 2),
  text: nullable(object({ format: nullable(format), verbosity: nullable(oneOf(["low", "medium", "high"])) })),
  tool_choice: nullable(toolChoice),
  tools: nullable(list(object({ type: text }), { maxItems: 1_024 })),
  top_logprobs: nullableInteger(0, 20),
  top_p: nullableNumber(0, 1),
  truncation: nullable(oneOf(["auto", "disabled"])),
  user: nullableText,
});

const checked = compiled(responsesRequest);

export type ResponsesRequest = Static<typeof responsesRequest>;

export interface ResponsesQuestion {
  request: ResponsesRequest;
  reasoning: ReasoningWanted;
  question: Question;
  /** Whether the answer is only the compacted conversation, begins with it, or has none. */
  compaction: "alone" | "first" | "none";
}

/**
 * `digest` is the hex SHA-256 of the body. Counting tokens requires neither a model nor an input.
 */
export function responsesQuestionOf(
  raw: unknown,
  digest: string,
  { counting }: { counting: boolean },
): ResponsesQuestion {
  const body = shaped(checked, raw);
  checkState(body);
  if (!counting && !body.model) missing("model");
  if (!counting && (body.input ?? "").length === 0) missing("input");
  const items = itemsIn(body.input ?? [], { isStored: body.store ?? true });
  const callable = toolsIn(body.tools ?? [], body.tool_choice ?? "auto");
  const wanted = formatOf(body);
  const lastUser = items.findLastIndex((item) => item.kind === "message" && item.role === "user");
  const question = items[lastUser];
  const {
    text: userText,
    images,
    documents,
  } = question?.kind === "message" ? question : { text: "", images: [], documents: [] };
  const before =
    (body.instructions ? messageTokens + promptTokensOf(body.instructions) : 0) +
    (body.tools ? promptTokensOf(JSON.stringify(body.tools)) : 0);
  const prompt = promptOf(
    items.map(({ tokens }) => tokens),
    before,
  );
  return {
    request: body,
    compaction: compactionIn(body, prompt.promptTokens),
    reasoning: {
      isShown: typeof body.reasoning?.summary === "string",
      isSealed: body.include?.includes("reasoning.encrypted_content") ?? false,
    },
    question: {
      digest,
      userText,
      images,
      documents,
      toolResults: resultsOf(items, lastUser),
      ...callable,
      parallelCalls: body.parallel_tool_calls ?? true,
      format: wanted,
      effort: body.reasoning?.effort ?? (body.model?.startsWith(reasoningModel) ? "medium" : undefined),
      outputTokensMax: body.max_output_tokens ?? undefined,
      stops: [],
      choices: 1,
      ...prompt,
    },
  };
}

function compactionIn(
  { input, context_management: rules }: ResponsesRequest,
  promptTokens: number,
): ResponsesQuestion["compaction"] {
  const last = Array.isArray(input) ? (input.at(-1) as { type?: unknown } | undefined) : undefined;
  if (last?.type === "compaction_trigger") return "alone";
  return rules?.some(
    ({ type, compact_threshold: most }) => type === "compaction" && promptTokens > (most ?? Number.POSITIVE_INFINITY),
  )
    ? "first"
    : "none";
}

/** The simulator stores nothing that a request could continue. */
function checkState(request: ResponsesRequest): void {
  const { previous_response_id: previous, conversation, prompt, background } = request;
  if (typeof previous === "string")
    refused(
      "previous_response_id",
      `Previous response with id '${previous.slice(0, 80)}' not found.`,
      "previous_response_not_found",
    );
  const kept = conversation ? "conversation" : prompt ? "prompt" : background ? "background" : undefined;
  if (kept !== undefined) refused(kept, `${kept}: the simulator stores nothing.`, "unsupported_parameter");
}

function formatOf({ text }: ResponsesRequest): Question["format"] {
  const requested = text?.format;
  if (requested?.type === "json_object") return { kind: "json" };
  if (requested?.type !== "json_schema") return { kind: "text" };
  if (requested.name === undefined) return missing("text.format.name");
  return requested.schema === undefined ? missing("text.format.schema") : { kind: "schema", schema: requested.schema };
}

function resultsOf(items: ReadItem[], lastUser: number): Question["toolResults"] {
  const names = new Map(items.flatMap((item) => (item.kind === "call" ? [[item.callId, item.name] as const] : [])));
  return items
    .slice(lastUser + 1)
    .flatMap((item) =>
      item.kind === "result" ? [{ name: names.get(item.callId) ?? item.callId, text: item.text }] : [],
    );
}
