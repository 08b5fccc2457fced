/**
 * Verbatim relay between a caller and an upstream that both speak OpenAI's chat completions: bytes
 * stay unchanged except for the model's name.
 */

import { isPresent, type JsonObject, jsonBytesOf, jsonOf, listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import {
  type Edit,
  isEmptyArray,
  isNull,
  memberSpansOf,
  objectSpansOf,
  readSpan,
  replaceSpans,
  withElements,
  withMembers,
  withValues,
  withValuesAt,
} from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { AnswerIdentity, Framing, StreamRelay, Target, Verbatim, WholeAnswer, WireRequest } from "../codec.ts";
import { emptyAnswer, finishIn, reasonIn } from "../neutral/finish.ts";
import { chatDelta, type Produced } from "../neutral/produced.ts";
import { isWrappedSignature, wrappedSignatureMark } from "../neutral/wrapped-signature.ts";
import type { TextDelta } from "../relay/event-pattern.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, Watcher } from "../relay/verbatim.ts";
import { reasoningBeside, withMembersAt, withoutFields } from "../repairs/omitted-fields.ts";
import { fittedSchema } from "../schema/tool-schemas.ts";
import { countedUsage, laterUsage, type Usage } from "../usage.ts";
import { errorIn, failureIn, isContent, onlyTextIn, reportIn, usageOf } from "./answer.ts";
import { attachmentFinder } from "./attachments.ts";
import {
  CustomCalls,
  withArguments,
  withEnding,
  withIdentity,
  withoutIdentity,
  withTextArguments,
} from "./custom-calls.ts";
import { type Envelope, envelopeOf, missingIn, readableChoices, readableChunkOf } from "./readable-answer.ts";
import { withoutReasoning, withPlaceholder, withSignedCall } from "./reasoning.ts";
import { StreamedCalls } from "./streamed-calls.ts";

const emptyObject = Buffer.from("{}");
const doneEvent = Buffer.from("data: [DONE]\n\n");

export const verbatim: Verbatim = {
  request(bytes, framing, target) {
    const own = bytes.includes(wrappedSignatureMark) ? withoutWrappedSignatures(bytes) : bytes;
    const body = requestOf(withModelRules(own, target), framing, target);
    return body === undefined ? undefined : { path: "/chat/completions", body };
  },
  repairs: {
    companions: (bytes) => withMessages(bytes, withoutReasoning),
    signatures: (bytes) => withMessages(bytes, withSignedCall),
    schemas: (bytes) => withMembersAt(bytes, ["tools", "function", "parameters"], fittedSchema("openai-chat")),
    placeholders(bytes) {
      const filled = withMessages(bytes, withPlaceholder);
      return filled === bytes ? withoutFields(bytes, [reasoningBeside]) : filled;
    },
  },
  stream: (bytes, _framing, identity) =>
    new VerbatimStream(new ChatWatcher(identity.model, requestedAnswerIn(bytes), { identity })),
  attachmentFinder,
  answer: (bytes, identity) => answerOf(bytes, identity.model, { identity }),
};

/**
 * OpenAI's legacy completions, whose choices have a text instead of a message:
 * https://platform.openai.com/docs/api-reference/completions
 */
export const verbatimCompletions = {
  request(bytes: Buffer, framing: Framing, target: Target): WireRequest | undefined {
    const body = requestOf(bytes, framing, target);
    return body && { path: "/completions", body };
  },
  stream: (requested: RequestedAnswer, model: string): StreamRelay =>
    new VerbatimStream(new ChatWatcher(model, requested, { deltaOf: textDeltaOf })),
  answer: (bytes: Buffer, model: string) => answerOf(bytes, model, { messageOf: textDeltaOf }),
};

/** A choice of a completion, as the delta or the message of a chat completion. */
export const textDeltaOf = ({ text }: JsonObject): JsonObject => ({ content: text });

/**
 * The caller's bytes with the upstream's model name, `store: false`, and `stream_options` that ask
 * for the usage of a stream; for other framings and for upstreams without `streamUsage` the options
 * are removed. Everything else stays unchanged. Undefined if the bytes are not a JSON object with a
 * model.
 */
function requestOf(bytes: Buffer, framing: Framing, { model, streamUsage }: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model", "stream_options", "store"]);
  if (spans?.members.model === undefined) return undefined;
  const { stream_options: options } = spans.members;
  const isReported = framing !== "whole" && streamUsage;
  const usageOptions = isReported
    ? usageOptionsIn(options ? bytes.subarray(options.start, options.end) : emptyObject)
    : undefined;
  const isStored = spans.all.some((span) => span.name === "store" && readSpan(bytes, span) === true);
  const own = withValuesAt(bytes, spans, {
    model: jsonBytesOf(model),
    ...(isStored && { store: Buffer.from("false") }),
    ...(usageOptions && { stream_options: usageOptions }),
  });
  return isReported || options === undefined ? own : withMembers(own, "stream_options", () => undefined);
}

/**
 * The bytes with the settings that the model requires beside tools: no reasoning beside functions,
 * and no thinking or no force where it can't be forced to call. The same bytes for a model without
 * such rules, and without tools.
 */
function withModelRules(bytes: Buffer, { traits, reasons }: Target): Buffer {
  const { callsWhileReasoning, forcedCalls, thinksAlways, thinkingSwitch, efforts } = traits;
  if ((callsWhileReasoning || reasons === false) && forcedCalls === "always") return bytes;
  const { tools, tool_choice: choice } = objectSpansOf(bytes, ["tools", "tool_choice"])?.members ?? {};
  const offered = listOf(tools && readSpan(bytes, tools)).map(objectOf);
  if (offered.length === 0) return bytes;
  const values: Record<string, string> = {};
  if (!callsWhileReasoning && efforts.includes("none") && offered.some(({ type }) => type !== "custom"))
    values.reasoning_effort = '"none"';
  if (forcedCalls !== "always" && isForced(choice && readSpan(bytes, choice))) {
    if (forcedCalls === "never" || thinksAlways) values.tool_choice = '"auto"';
    else if (thinkingSwitch === "enable_thinking") values.enable_thinking = "false";
    else if (thinkingSwitch === "thinking") values.thinking = '{"type":"disabled"}';
  }
  const set = Object.entries(values).map(([name, value]) => [name, Buffer.from(value)]);
  return set.length === 0 ? bytes : withValues(bytes, Object.fromEntries(set));
}

const isForced = (choice: unknown): boolean => {
  const { type, allowed_tools: allowed } = objectOf(choice);
  return (
    choice === "required" ||
    choice === "any" ||
    type === "function" ||
    type === "custom" ||
    objectOf(allowed).mode === "required"
  );
};

/** The parts of a request that its answer depends on. */
export interface RequestedAnswer {
  /** The caller wants the usage in a stream. */
  usageShown: boolean;
  /** The number of choices. */
  choices: number;
  /** A tool is named for the call, after which OpenAI's models stop. */
  namesTool?: boolean;
}

/** True if a request names the tool to call. One without a choice of tools costs one search. */
export const namesToolIn = (bytes: Buffer) => bytes.includes('"tool_choice"') && requestedAnswerIn(bytes).namesTool;

export function requestedAnswerIn(bytes: Buffer): RequestedAnswer {
  const { members } = objectSpansOf(bytes, ["stream_options", "n", "tool_choice"]) ?? {};
  const { stream_options: options, n, tool_choice: choice } = members ?? {};
  const { type } = objectOf(choice && readSpan(bytes, choice));
  return {
    namesTool: type === "function" || type === "custom",
    usageShown: options !== undefined && usageOptionsIn(bytes.subarray(options.start, options.end)) === undefined,
    choices: n === undefined || isNull(bytes, n) ? 1 : Number(readSpan(bytes, n)),
  };
}

const withMessages = (bytes: Buffer, change: (message: Buffer) => Buffer) =>
  withMembers(bytes, "messages", (messages) => withElements(messages, change));

/**
 * Removes other dialects' reasoning in earlier answers: this upstream cannot use it and may reject
 * the field.
 */
const withoutWrappedSignatures = (bytes: Buffer) =>
  withMessages(bytes, (message) => withMembers(message, "reasoning_details", withoutForeign));

function withoutForeign(details: Buffer): Buffer | undefined {
  const kept = withElements(details, (detail) => {
    const { signature, data } = objectOf(readSpan(detail, { start: 0, end: detail.length }));
    return isWrappedSignature(String(signature ?? data ?? "")) ? undefined : detail;
  });
  return kept !== details && isEmptyArray(kept) ? undefined : kept;
}

/** Stream options that ask for the usage; undefined if they already do. */
function usageOptionsIn(options: Buffer): Buffer | undefined {
  const spans = objectSpansOf(options, ["include_usage"]);
  if (spans === undefined) return Buffer.from('{"include_usage":true}');
  const own = spans.members.include_usage;
  if (own !== undefined && readSpan(options, own) === true) return undefined;
  return withValues(options, { include_usage: Buffer.from("true") });
}

/** The delta of a chunk's choice, or the message of a whole one. */
type DeltaOf = (choice: JsonObject) => JsonObject;
const deltaIn: DeltaOf = ({ delta }) => objectOf(delta);

class ChatWatcher extends Watcher {
  usage: Usage | undefined;
  readonly #model: Buffer;
  readonly #deltaOf: DeltaOf;
  readonly #usageShown: boolean;
  readonly #choices: number;
  readonly #namesTool: boolean;
  readonly #finishedChoices = new Set<unknown>();
  #usageChunkSeen = false;
  #committed = false;
  readonly #custom: CustomCalls | undefined;
  /** For chunks that lack its members; undefined for completions. */
  #own: Envelope | undefined;
  /** By the choice's index. */
  readonly #calls = new Map<unknown, StreamedCalls>();
  #hasLegacyCall = false;

  constructor(
    model: string,
    { usageShown, choices, namesTool = false }: RequestedAnswer,
    { deltaOf = deltaIn, identity }: { deltaOf?: DeltaOf; identity?: AnswerIdentity },
  ) {
    super();
    this.#deltaOf = deltaOf;
    this.#own = identity && envelopeOf(identity, "chat.completion.chunk");
    this.#custom = identity?.customNames && new CustomCalls(identity.customNames);
    this.#model = jsonBytesOf(model);
    this.#usageShown = usageShown;
    this.#choices = choices;
    this.#namesTool = namesTool;
  }

  /** Every choice has its finish reason: at most the usage and the terminator are missing. */
  get finished(): boolean {
    return this.#finishedChoices.size >= this.#choices;
  }

  override get hasAllContent(): boolean {
    return this.finished && !this.contradicted;
  }

  override get complete(): boolean {
    return this.hasAllContent && this.#usageChunkSeen;
  }

  /** A call whose arguments are incomplete must not look complete. */
  override get endsWithDone(): boolean {
    return this.finished || ![...this.#calls.values()].some(({ hasIncomplete }) => hasIncomplete);
  }

  override terminator(): Buffer {
    return doneEvent;
  }

  look({ data }: SseEvent, sent: JsonObject, produced: Produced): Passing {
    const error = errorIn(sent);
    if (error !== undefined) return failedWith(error);
    const value = this.#own === undefined ? sent : readableChunkOf(sent, this.#own, this.#committed);
    if (this.#own !== undefined && value.id !== "") this.#own.id = String(value.id);
    const choices = listOf(value.choices).map(objectOf);
    const failure = failureIn(choices);
    if (failure !== undefined) return failedWith(failure);
    const report = reportIn(value);
    if (report !== undefined) {
      this.usage = laterUsage(countedUsage(report), this.usage);
      if (choices.length === 0) {
        this.#usageChunkSeen = true;
        if (!this.#usageShown) return { kind: "hidden" };
      }
    }
    const deltas = choices.map(this.#deltaOf);
    for (const delta of deltas) chatDelta(delta, produced);
    const says = deltas.some(hasContent);
    this.contradicted ||= this.finished && says;
    const readable = this.#withReadableCalls(value, choices, deltas);
    for (const [place, { index, finish_reason: reason }] of listOf(readable.choices).map(objectOf).entries())
      if (reasonIn(reason) !== undefined) {
        this.#finishedChoices.add(index ?? place);
        produced.finished(reason);
      }
    this.#committed ||= says || choices.some(isEnded);
    const custom = this.#custom?.chunksFor(readable);
    if (custom !== undefined) return this.#passing(custom);
    if (readable !== sent) return this.#passing([jsonOf(readable)]);
    const edits = namedBy(data, value, this.#model);
    const isQuiet = this.#custom === undefined && report === undefined && !this.finished && !choices.some(isEnded);
    return {
      kind: "relay",
      bytes: eventBytesOf(undefined, data, edits),
      content: this.#committed,
      delta: isQuiet && deltas.length === 1 ? textDeltaIn(deltas[0] as JsonObject, edits) : undefined,
    };
  }

  /**
   * The chunk with an index and an id of its own for each call, because clients join the chunks of
   * one index or id, with arguments as text, and with the end of a call. Agents take an answer that
   * stopped for the last one (https://github.com/anomalyco/opencode/issues/14972), and OpenAI's stop
   * only after a call that the caller named (https://github.com/vllm-project/vllm/pull/25054). The
   * same chunk if its server sent it so.
   */
  #withReadableCalls(value: JsonObject, choices: readonly JsonObject[], deltas: readonly JsonObject[]): JsonObject {
    this.#hasLegacyCall ||= deltas.some(({ function_call: call }) => isPresent(call));
    const mayChange = this.#calls.size > 0 || choices.some(isEnded);
    if (!mayChange && !deltas.some(({ tool_calls: calls }) => calls !== undefined)) return value;
    let isChanged = false;
    const newChoices = choices.map((choice, place) => {
      const index = choice.index ?? place;
      const calls = listOf(deltas[place]?.tool_calls).map(objectOf);
      const own = calls.map((call) => this.#readable(index, call));
      const made = this.#calls.get(index);
      const ended = withEnding(choice, {
        hasCalls: made !== undefined || this.#hasLegacyCall,
        isCut: () => made?.hasIncomplete === true,
        mayStop: made === undefined || this.#namesTool,
      });
      if (ended === choice && own.every((call, at) => call === calls[at])) return choice;
      isChanged = true;
      return calls.length === 0 ? ended : { ...ended, delta: { ...deltas[place], tool_calls: own } };
    });
    return isChanged ? { ...value, choices: newChoices } : value;
  }

  #readable(choice: unknown, call: JsonObject): JsonObject {
    const calls = this.#calls.get(choice) ?? new StreamedCalls();
    this.#calls.set(choice, calls);
    const { call: streamedCall, isNew, name, input } = calls.read(call);
    const named = isNew ? withIdentity(call, streamedCall.ownId) : withoutIdentity(call, name === "");
    const own = withTextArguments(withArguments(named, input));
    return call.index === streamedCall.ownIndex ? own : { ...own, index: streamedCall.ownIndex };
  }

  /** Chunks that replace one of the upstream's. */
  #passing(chunks: readonly string[]): Passing {
    if (chunks.length === 0) return { kind: "hidden" };
    const bytes = chunks.map((json) => {
      const data = Buffer.from(json);
      return eventBytesOf(undefined, data, namedBy(data, objectOf(JSON.parse(json)), this.#model));
    });
    return { kind: "relay", bytes: Buffer.concat(bytes), content: this.#committed };
  }
}

/**
 * A whole answer: the same bytes with the catalogue's model id, and what clients can't read mended,
 * and the reported usage.
 */
function answerOf(
  bytes: Buffer,
  model: string,
  { messageOf = ({ message }) => objectOf(message), identity }: { messageOf?: DeltaOf; identity?: AnswerIdentity },
): WholeAnswer {
  const body = parsedObject(bytes);
  if (body === undefined) return { kind: "malformed" };
  const error = errorIn(body);
  if (error !== undefined) return failedWith(error);
  if (body.choices === undefined) return { kind: "malformed" };
  const choices = listOf(body.choices).map(objectOf);
  const failure = failureIn(choices);
  if (failure !== undefined) return failedWith(failure);
  if (!choices.some((choice) => isEnded(choice) || hasContent(messageOf(choice)))) return failedWith(emptyAnswer);
  const named = replaceSpans(bytes, namedBy(bytes, body, jsonBytesOf(model)));
  const own = identity && readableChoices(body.choices, identity);
  const missing = identity === undefined ? {} : missingIn(body, envelopeOf(identity, "chat.completion"));
  const values = Object.entries(own === undefined ? missing : { ...missing, choices: own });
  return {
    kind: "answer",
    body: withValues(named, Object.fromEntries(values.map(([name, value]) => [name, jsonBytesOf(value)]))),
    usage: usageOf(body),
    finish: finishIn((own ?? choices).map((choice) => objectOf(choice).finish_reason)),
  };
}

const namedBy = (bytes: Buffer, parsed: JsonObject, by: Buffer): Edit[] =>
  memberSpansOf(bytes, "model", parsed).map(({ start, end }) => ({ start, end, by }));

/** True if a choice has a reason for its end. */
const isEnded = ({ finish_reason: reason }: JsonObject) => reasonIn(reason) !== undefined;

/** The text of a delta that has nothing else. */
function textDeltaIn(delta: JsonObject, edits: readonly Edit[]): TextDelta | undefined {
  const name = onlyTextIn(delta);
  return name === undefined ? undefined : { text: String(delta[name]), isThought: name !== "content", edits };
}

/** True if a message or a delta has more than the role that opens an answer. */
const hasContent = (delta: JsonObject) => Object.keys(delta).some((name) => isContent(name, delta[name]));
