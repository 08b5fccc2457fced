/** Reads a request for a response, as far as the answer depends on it; unknown fields pass. */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { promptTokensOf } from "../../answer/chunks.ts";
import { messageTokens, type Question, reasoningModel } from "../../answer/question.ts";
import type { Refused } from "../dialect.ts";
import { faultIn } from "../shape.ts";
import { type Said, saidIn } from "./input.ts";
import type { ReasoningWanted } from "./items.ts";
import { missing, nullable, refused } from "./reading.ts";
import { toolChoice, toolsIn } from "./tools.ts";

const anything = Type.Unknown();

const format = Type.Object({
  type: Type.Enum(["text", "json_object", "json_schema"]),
  name: Type.Optional(Type.String()),
  schema: Type.Optional(anything),
});

const responsesRequest = Type.Object({
  model: nullable(Type.String()),
  input: nullable(Type.Union([Type.String(), Type.Array(Type.Object({}))])),
  instructions: nullable(Type.String()),
  max_output_tokens: nullable(Type.Integer({ minimum: 16 })),
  max_tool_calls: nullable(Type.Integer()),
  metadata: nullable(Type.Object({})),
  include: nullable(Type.Array(Type.String())),
  parallel_tool_calls: nullable(Type.Boolean()),
  previous_response_id: nullable(Type.String()),
  conversation: nullable(anything),
  prompt: nullable(anything),
  background: nullable(Type.Boolean()),
  context_management: nullable(
    Type.Array(Type.Object({ type: Type.String(), compact_threshold: nullable(Type.Integer({ minimum: 1 })) })),
  ),
  prompt_cache_key: nullable(Type.String()),
  reasoning: nullable(
    Type.Object({
      effort: nullable(Type.Enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
      summary: nullable(Type.Enum(["auto", "concise", "detailed"])),
    }),
  ),
  safety_identifier: nullable(Type.String({ maxLength: 128 })),
  store: nullable(Type.Boolean()),
  stream: nullable(Type.Boolean()),
  temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
  text: nullable(Type.Object({ format: nullable(format), verbosity: nullable(Type.Enum(["low", "medium", "high"])) })),
  tool_choice: nullable(toolChoice),
  tools: nullable(Type.Array(Type.Object({ type: Type.String() }), { maxItems: 1_024 })),
  top_logprobs: nullable(Type.Integer({ minimum: 0, maximum: 20 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  truncation: nullable(Type.Enum(["auto", "disabled"])),
  user: nullable(Type.String()),
});

const checked = Compile(responsesRequest);

export type ResponsesRequest = Static<typeof responsesRequest>;

export interface ResponsesQuestion {
  kind: "question";
  request: ResponsesRequest;
  reasoning: ReasoningWanted;
  question: Question;
  /** Whether the answer is only the compacted conversation, begins with it, or has none. */
  compaction: "alone" | "first" | "none";
}

/** `digest` is the hex SHA-256 of the body. Counting tokens requires neither a model nor an input. */
export function responsesQuestionOf(
  body: unknown,
  digest: string,
  { counting }: { counting: boolean },
): ResponsesQuestion | Refused {
  if (!checked.Check(body)) return faultIn(checked.Errors(body));
  const stateful = faultOfState(body);
  if (stateful !== undefined) return stateful;
  if (!counting && !body.model) return missing("model");
  if (!counting && (body.input ?? "").length === 0) return missing("input");
  const said = saidIn(body.input ?? [], { isStored: body.store ?? true });
  if (said.kind === "refused") return said;
  const offered = toolsIn(body.tools ?? [], body.tool_choice ?? "auto");
  if (offered.kind === "refused") return offered;
  const wanted = formatOf(body);
  if (wanted.kind === "refused") return wanted;
  const { items } = said;
  const lastUser = items.findLastIndex((item) => item.kind === "message" && item.role === "user");
  const asked = items[lastUser];
  const {
    text: userText,
    images,
    documents,
  } = asked?.kind === "message" ? asked : { text: "", images: [], documents: [] };
  const before =
    (body.instructions ? messageTokens + promptTokensOf(body.instructions) : 0) +
    (body.tools ? promptTokensOf(JSON.stringify(body.tools)) : 0);
  const promptTokens = items.reduce((sum, { tokens }) => sum + tokens, before);
  return {
    kind: "question",
    request: body,
    compaction: compactionIn(body, promptTokens),
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
      tools: offered.tools,
      calling: offered.calling,
      parallelCalls: body.parallel_tool_calls ?? true,
      format: wanted,
      effort: body.reasoning?.effort ?? (body.model?.startsWith(reasoningModel) ? "medium" : undefined),
      outputTokensMax: body.max_output_tokens ?? undefined,
      stops: [],
      choices: 1,
      promptTokens,
      earlierTokens: promptTokens - (items.at(-1)?.tokens ?? 0),
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
function faultOfState(request: ResponsesRequest): Refused | undefined {
  const { previous_response_id: previous, conversation, prompt, background } = request;
  if (typeof previous === "string")
    return refused(
      "previous_response_id",
      `Previous response with id '${previous.slice(0, 80)}' not found.`,
      "previous_response_not_found",
    );
  const kept = conversation ? "conversation" : prompt ? "prompt" : background ? "background" : undefined;
  return kept === undefined
    ? undefined
    : refused(kept, `${kept}: the simulator stores nothing.`, "unsupported_parameter");
}

function formatOf({ text }: ResponsesRequest): Question["format"] | Refused {
  const asked = text?.format;
  if (asked?.type === "json_object") return { kind: "json" };
  if (asked?.type !== "json_schema") return { kind: "text" };
  if (asked.name === undefined) return missing("text.format.name");
  return asked.schema === undefined ? missing("text.format.schema") : { kind: "schema", schema: asked.schema };
}

function resultsOf(items: Said[], lastUser: number): Question["toolResults"] {
  const names = new Map(items.flatMap((item) => (item.kind === "call" ? [[item.callId, item.name] as const] : [])));
  return items
    .slice(lastUser + 1)
    .flatMap((item) =>
      item.kind === "result" ? [{ name: names.get(item.callId) ?? item.callId, text: item.text }] : [],
    );
}
