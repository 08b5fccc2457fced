/**
 * Whole answers in Anthropic's Messages format, and the parts shared with streamed answers:
 * https://platform.claude.com/docs/en/api/messages
 */
import { randomBytes } from "node:crypto";
import {
  defined,
  isObject,
  isPresent,
  type JsonObject,
  jsonOf,
  listOf,
  objectOf,
  someOf,
  textOf,
} from "#wire/json/parse.ts";
import type { AnswerContext } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { anthropicCitationOf, anthropicCitationsIn } from "../neutral/citations.ts";
import {
  emptyAnswer,
  endingFor,
  endingWithCalls,
  explanationLengthMax,
  finishOf,
  reasonIn,
} from "../neutral/finish.ts";
import {
  type Answer,
  type AnswerEvent,
  type Block,
  endWith,
  eventsOf,
  type Finish,
  failed,
  type Signature,
} from "../neutral/neutral.ts";
import { calledTool } from "../neutral/tools.ts";
import { unshownText } from "../neutral/unshown.ts";
import { wrappedSignatureOf } from "../neutral/wrapped-signature.ts";
import { upstreamErrorOf as readError } from "../upstream-errors/upstream-errors.ts";
import { countedUnits, countedUsage, plausible, serviceTierOf, tokensOf, type Usage } from "../usage.ts";
import { dialect, inputObjectOf, inputOf, thinkingBlockOf } from "./blocks.ts";
import type { WireBlock } from "./cache.ts";

const stopReasons: Record<Finish, string> = {
  stop: "end_turn",
  "stop-sequence": "stop_sequence",
  length: "max_tokens",
  "context-full": "model_context_window_exceeded",
  calls: "tool_use",
  "content-filter": "refusal",
  paused: "pause_turn",
};

/**
 * The end of an answer, for the second-to-last event of a stream and for a whole body. A stop
 * sequence counts only if the caller gave it: other servers also report the model's own end-of-text
 * token as one.
 */
export function endingOf(finish: Finish, stopSequence: string | undefined, { request, cut }: AnswerContext) {
  const sequences = [...(request.settings.stop?.value ?? []), ...(cut?.sequences ?? [])];
  const isForeign = stopSequence !== undefined && !sequences.includes(stopSequence);
  return {
    stop_reason: stopReasons[finish === "stop-sequence" && isForeign ? "stop" : finish],
    stop_sequence: isForeign ? null : (stopSequence ?? null),
    stop_details: finish === "content-filter" ? { type: "refusal", category: null, explanation: null } : null,
  };
}

const ownReasons: ReadonlySet<unknown> = new Set([...Object.values(stopReasons), "compaction"]);

/**
 * The stop reason in place of a server's; undefined if it stays. Agents run the calls of an answer
 * only after `tool_use` (https://github.com/BerriAI/litellm/issues/34692,
 * https://github.com/open-octo/octo-agent/pull/647), wait for calls that it announces
 * (https://github.com/jasonxu114514/opencode2api/pull/27), and know the vendor's words only.
 */
export function stopReasonFor(reason: unknown, hasCalls: boolean): string | undefined {
  const word = reasonIn(reason) ?? "";
  const meant = finishOf(word, hasCalls);
  if (meant === undefined) return undefined;
  const finish = endingWithCalls(meant, { called: hasCalls, isCut: false });
  return finish === finishOf(word, false) && ownReasons.has(reason) ? undefined : stopReasons[finish];
}

/**
 * The rounds of an answer that its totals leave out, although they are billed: the summary of a
 * conversation that became too long, and advice. Another model gives the advice; it is counted as
 * if the model of the answer gave it.
 * https://platform.claude.com/docs/en/build-with-claude/compaction-threshold,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/advisor-tool
 */
const roundsApart: ReadonlySet<unknown> = new Set(["compaction", "advisor_message"]);

type Counters = Record<string, number>;

/** The counters of a report that are above zero. */
function countersOf(report: JsonObject): Counters {
  const counters: Counters = {};
  const read = (name: string, tokens: unknown) => {
    if (tokensOf(tokens) > 0) counters[name] = tokensOf(tokens);
  };
  for (const name of ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"])
    read(name, report[name]);
  read("thinking_tokens", objectOf(report.output_tokens_details).thinking_tokens);
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } = objectOf(report.cache_creation);
  // The second name is new-api's: https://github.com/QuantumNous/new-api/issues/6212
  read("written_1h", long ?? report.claude_cache_creation_1_h_tokens);
  read("written", tokensOf(short) + tokensOf(long));
  read("web_searches", objectOf(report.server_tool_use).web_search_requests);
  return counters;
}

function sumOf(all: readonly Counters[]): Counters {
  const sum: Counters = {};
  for (const counters of all)
    for (const [name, count] of Object.entries(counters)) sum[name] = (sum[name] ?? 0) + count;
  return sum;
}

/**
 * Collects the counters of an answer. Each report replaces the previous one; reports are totals,
 * not increments.
 */
export class UsageReader {
  /** A new object after each report. */
  usage: Usage | undefined;
  readonly #counters: Counters = {};
  #apart: readonly Counters[] = [];
  readonly #tier: Record<"service_tier" | "speed" | "inference_geo", unknown> = {
    service_tier: undefined,
    speed: undefined,
    inference_geo: undefined,
  };

  read(value: unknown): void {
    if (!isObject(value)) return;
    const report = objectOf(value);
    Object.assign(this.#counters, countersOf(report));
    if (Array.isArray(report.iterations))
      this.#apart = report.iterations.filter((round) => roundsApart.has(round?.type)).map(countersOf);
    for (const name of ["service_tier", "speed", "inference_geo"] as const)
      if (isPresent(report[name])) this.#tier[name] = report[name];
    this.usage = countedUsage(this.#sum());
  }

  #sum(): Usage {
    const counters = this.#apart.length === 0 ? this.#counters : sumOf([this.#counters, ...this.#apart]);
    const {
      input_tokens: input = 0,
      cache_read_input_tokens: cached = 0,
      cache_creation_input_tokens: created = 0,
    } = counters;
    const { output_tokens: output = 0, thinking_tokens: thinking = 0 } = counters;
    const written = Math.max(created, counters.written ?? 0);
    const { service_tier: tier, speed, inference_geo: geo } = this.#tier;
    return plausible({
      inputTokens: input + cached + written,
      cachedInputTokens: cached,
      cacheWriteTokens: written,
      outputTokens: output,
      reasoningTokens: thinking,
      ...countedUnits({
        cacheWrite1hTokens: counters.written_1h ?? 0,
        webSearches: counters.web_searches ?? 0,
      }),
      ...serviceTierOf(tier, speed === "standard" ? undefined : speed, geo === "us" ? geo : undefined),
    });
  }
}

const noUsage: Usage = {
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};

export const usageBodyOf = ({
  inputTokens,
  cachedInputTokens,
  cacheWriteTokens,
  outputTokens,
  reasoningTokens,
  units = {},
}: Usage = noUsage) => ({
  input_tokens: Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens),
  cache_creation_input_tokens: cacheWriteTokens,
  cache_read_input_tokens: cachedInputTokens,
  output_tokens: outputTokens,
  output_tokens_details: { thinking_tokens: reasoningTokens },
  server_tool_use:
    units.webSearches === undefined ? null : { web_search_requests: units.webSearches, web_fetch_requests: 0 },
});

function cacheCreationOf({ cacheWriteTokens, units = {} }: Usage = noUsage) {
  const long = units.cacheWrite1hTokens ?? 0;
  return { ephemeral_5m_input_tokens: cacheWriteTokens - long, ephemeral_1h_input_tokens: long };
}

/** An answer before it has content. */
export const messageOf = ({ id, model }: AnswerContext, usage?: Usage) => ({
  id: `msg_${id}`,
  type: "message",
  role: "assistant",
  model,
  content: [] as WireBlock[],
  container: null,
  stop_reason: null as string | null,
  stop_sequence: null as string | null,
  stop_details: null as object | null,
  usage: {
    ...usageBodyOf(usage),
    cache_creation: cacheCreationOf(usage),
    inference_geo: null,
    service_tier: "standard",
    speed: null,
  },
});

const leadingField = /^([a-z_]+(?:\.[\w-]+)*): /;

/**
 * Reads an error body, or the `error` in one. The message starts with the name of the field at
 * fault.
 */
export function upstreamErrorOf(body: unknown): UpstreamError {
  const error = readError(body);
  return { ...error, param: error.param ?? leadingField.exec(error.message)?.[1] };
}

/**
 * A block as it begins, or a whole block; undefined for blocks that only this vendor's own servers
 * produce.
 */
export function blockOf(block: WireBlock): Block | undefined {
  switch (block.type) {
    case "text":
      return {
        kind: "text",
        text: textOf(block.text) ?? "",
        ...defined({ citations: someOf(anthropicCitationsIn(block.citations)) }),
      };
    case "thinking": {
      const data = textOf(block.signature);
      return {
        kind: "reasoning",
        text: textOf(block.thinking) ?? "",
        ...(data !== undefined && { signature: { dialect, data } }),
      };
    }
    case "redacted_thinking": {
      const data = textOf(block.data);
      return {
        kind: "reasoning",
        text: "",
        ...(data !== undefined && { signature: { dialect, data, redacted: true } }),
      };
    }
    case "tool_use": {
      return {
        kind: "call",
        id: textOf(block.id) ?? `toolu_${randomBytes(12).toString("hex")}`,
        name: textOf(block.name) ?? "",
        input: inputOf(block.input),
      };
    }
    default:
      return undefined;
  }
}

/**
 * Why the model refused, in its vendor's words; undefined if it did not:
 * https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals
 */
export function refusalIn(details: unknown): string | undefined {
  const { type, category, explanation } = objectOf(details);
  if (type !== "refusal") return undefined;
  const text = textOf(explanation)?.slice(0, explanationLengthMax);
  return text ?? (textOf(category) && `The model refused to answer: ${String(category).slice(0, 100)}.`);
}

export function decodeAnswer(body: JsonObject): AnswerEvent[] {
  if (body.type === "error" || !Array.isArray(body.content)) return failed(upstreamErrorOf(body));
  const blocks = listOf(body.content).flatMap((block) => blockOf(objectOf(block)) ?? []);
  const reason = textOf(body.stop_reason);
  if (reason === undefined && blocks.length === 0) return failed(emptyAnswer);
  const called = blocks.some(({ kind }) => kind === "call");
  const hasContent = called || blocks.some((block) => block.kind === "text" && block.text !== "");
  const finish = endingFor(reason ?? "end_turn", { called, hasContent });
  if (typeof finish !== "string") return failed(finish);
  const explanation = refusalIn(body.stop_details);
  if (explanation !== undefined) blocks.push({ kind: "refusal", text: explanation });
  const reader = new UsageReader();
  reader.read(body.usage);
  return eventsOf({
    blocks,
    ...endWith(endingWithCalls(finish, { called, isCut: false }), {
      stopSequence: textOf(body.stop_sequence),
      usage: reader.usage,
    }),
  });
}

export function encodeAnswer({ blocks, finish, stopSequence, usage }: Answer, context: AnswerContext): string {
  const last = blocks.findLastIndex(
    (block) => block.kind !== "reasoning" || block.text !== "" || block.signature?.dialect === dialect,
  );
  // A foreign signature at the end is left out: clients take the last block as the answer.
  const content = blocks.slice(0, last + 1).flatMap((block) => blockBodyOf(block, context) ?? []);
  return jsonOf({ ...messageOf(context, usage), content, ...endingOf(finish, stopSequence, context) });
}

/** Undefined for an empty block. An answer of this format cannot contain an image. */
function blockBodyOf(block: Block, context: AnswerContext): WireBlock | undefined {
  switch (block.kind) {
    case "text":
    case "refusal": {
      const citations = block.kind === "text" ? block.citations?.map(anthropicCitationOf) : undefined;
      return block.text === "" ? undefined : { type: "text", text: block.text, ...defined({ citations }) };
    }
    case "reasoning":
      if (block.signature !== undefined) return thoughtBodyOf(block.text, block.signature, context);
      return block.text === "" ? undefined : { type: "thinking", thinking: block.text, signature: "" };
    case "call":
      return {
        type: "tool_use",
        id: block.id,
        name: calledNameOf(block.name, context),
        input: inputObjectOf(block.input),
      };
    case "image":
      return { type: "text", text: unshownText(block.mimeType) };
    default:
      return block satisfies never;
  }
}

/**
 * A signed reasoning block. Callers send it back unchanged, so a foreign signature travels as if it
 * belonged to this dialect.
 */
const thoughtBodyOf = (text: string, signature: Signature, context: AnswerContext) =>
  thinkingBlockOf(
    text,
    signature.dialect === dialect
      ? signature
      : { dialect, data: wrappedSignatureOf(signature, undefined, context.upstreamModel) },
  );

/** The caller's name of a tool. */
export const calledNameOf = (name: string, { request }: AnswerContext) => calledTool(request, name)?.callerName ?? name;
