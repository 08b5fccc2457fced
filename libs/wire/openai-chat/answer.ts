/**
 * Answers in OpenAI's chat-completions format, relayed to a caller of the same format: every byte of every event stays as the upstream
 * wrote it, but for the model's name; usage, the end and errors are read in passing.
 * https://platform.openai.com/docs/api-reference/chat/object and …/chat/streaming
 */
import type { Failure } from "../errors.ts";
import { isNull, type ObjectSpans, objectSpansOf, readSpan, replaceSpans, type Span } from "../json.ts";
import type { SseEvent } from "../sse.ts";
import type { Usage } from "../usage.ts";

type Member = "model" | "usage" | "error" | "choices";
const memberNames: readonly Member[] = ["model", "usage", "error", "choices"];
const doneData = Buffer.from("[DONE]");
const doneEvent = Buffer.from("data: [DONE]\n\n");
const dataPrefix = Buffer.from("data: ");
const eventEnd = Buffer.from("\n\n");
const lineFeed = 0x0a;
/** How many events without content are held back before the answer is committed all the same. */
const heldEventsMax = 32;
/** Characters of an upstream's message that a caller gets. */
const messageLengthMax = 2_000;
/** Characters of its code, its type and the field it names. */
const nameLengthMax = 200;
const finishReason = Buffer.from('"finish_reason"');

/** What an upstream says went wrong inside of an answer with a good status. */
export interface UpstreamError {
  message: string;
  code: string | undefined;
  type: string | undefined;
  /** The field at fault. */
  param: string | undefined;
  status: number | undefined;
}

export interface ChatStreamOptions {
  /** The catalogue's id, which callers see in place of the upstream's name. */
  model: string;
  usageShown: boolean;
  choices: number;
}

/**
 * One streamed answer. Feed it the upstream's events in order; take what it returns at once.
 * Until there is content it holds back what it got, so that everything before it can still become a true error status.
 */
export class ChatStream {
  usage: Usage | undefined;
  /** An error the upstream put into the stream; nothing of it or after it is relayed. */
  error: UpstreamError | undefined;
  /** The first content was seen: what `push` returns from here on belongs to the caller. */
  committed = false;
  /** The terminator was relayed; nothing may follow. */
  ended = false;
  malformedEvents = 0;
  readonly #options: ChatStreamOptions;
  readonly #model: Buffer;
  #held: Buffer[] = [];
  readonly #finishedChoices = new Set<unknown>();
  #usageChunkSeen = false;

  constructor(options: ChatStreamOptions) {
    this.#options = options;
    this.#model = Buffer.from(JSON.stringify(options.model));
  }

  /** Every choice has its finish reason: the answer lacks at most its usage and its terminator. */
  get finished(): boolean {
    return this.#finishedChoices.size >= this.#options.choices;
  }

  /** Complete but for `[DONE]`: it may be ended without waiting for more. */
  get complete(): boolean {
    return this.finished && this.#usageChunkSeen;
  }

  /** The caller's bytes for one event, appended to `out`. */
  push({ data, event }: SseEvent, out: Buffer[]): void {
    if (this.ended || this.error !== undefined) return;
    if (data.equals(doneData)) {
      if (this.finished || this.committed) this.end(out);
      return;
    }
    const spans = objectSpansOf(data, memberNames);
    if (spans === undefined) {
      this.malformedEvents++;
      return;
    }
    const { error, usage, choices } = spans.members;
    if (event === "error" || (error !== undefined && !isNull(data, error))) {
      this.error = upstreamErrorOf(error === undefined ? readSpan(data, { start: 0, end: data.length }) : readSpan(data, error));
      return;
    }
    const choicesEmpty = choices === undefined || isEmptyArray(data, choices);
    if (usage !== undefined && !isNull(data, usage)) {
      this.usage = usageOf(readSpan(data, usage)) ?? this.usage;
      if (choicesEmpty) {
        this.#usageChunkSeen = true;
        if (!this.#options.usageShown) return;
      }
    }
    if (!choicesEmpty && mayFinish(data, choices)) for (const index of finishedIn(readSpan(data, choices))) this.#finishedChoices.add(index);
    const bytes = this.#eventOf(data, spans);
    if (this.committed) out.push(bytes);
    else {
      this.#held.push(bytes);
      if (this.#held.length > heldEventsMax || (!choicesEmpty && hasContent(readSpan(data, choices)))) this.#commit(out);
    }
  }

  /** Ends a finished answer with its terminator, whether or not the upstream sent one. */
  end(out: Buffer[]): void {
    if (this.ended) return;
    this.#commit(out);
    out.push(doneEvent);
    this.ended = true;
  }

  #commit(out: Buffer[]): void {
    this.committed = true;
    out.push(...this.#held);
    this.#held = [];
  }

  #eventOf(data: Buffer, { all }: ObjectSpans<Member>): Buffer {
    const names = all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by: this.#model }));
    const json = names.length === 0 ? data : replaceSpans(data, names);
    if (json.includes(lineFeed)) return Buffer.from(`data: ${json.toString("utf8").replaceAll("\n", "\ndata: ")}\n\n`);
    return Buffer.concat([dataPrefix, json, eventEnd]);
  }
}

export type ChatBody = { kind: "answer"; body: Buffer; usage: Usage | undefined } | { kind: "error"; error: UpstreamError } | { kind: "malformed" };

/** A complete (not streamed) answer: the same bytes with the catalogue's model id, and the usage it reports. */
export function chatBodyOf(bytes: Buffer, model: string): ChatBody {
  const spans = objectSpansOf(bytes, memberNames);
  if (spans === undefined) return { kind: "malformed" };
  const { error, usage, choices } = spans.members;
  if (error !== undefined && !isNull(bytes, error)) return { kind: "error", error: upstreamErrorOf(readSpan(bytes, error)) };
  if (choices === undefined) return { kind: "malformed" };
  const by = Buffer.from(JSON.stringify(model));
  const names = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by }));
  return { kind: "answer", body: replaceSpans(bytes, names), usage: usage === undefined ? undefined : usageOf(readSpan(bytes, usage)) };
}

/** What an error body of an OpenAI-compatible upstream says; tolerant, for they differ. */
export function upstreamErrorOf(value: unknown): UpstreamError {
  const fields = (typeof value === "object" && value !== null ? value : { message: value }) as Record<string, unknown>;
  const textOf = (name: string, lengthMax = nameLengthMax) =>
    typeof fields[name] === "string" && fields[name] !== "" ? (fields[name] as string).slice(0, lengthMax) : undefined;
  return {
    message: textOf("message", messageLengthMax) ?? "The upstream of this model reported an error without a message.",
    code: textOf("code"),
    type: textOf("type"),
    param: textOf("param"),
    status: [fields.status, fields.code].find((candidate): candidate is number => typeof candidate === "number" && candidate >= 400 && candidate <= 599),
  };
}

/**
 * Sorts an upstream's error answer. What the caller did wrong is passed on with the upstream's reason; the rest is ours to answer for, in our
 * own words: an upstream's may name its address, its accounts or the credential.
 */
export function failureOf(status: number, { message, code, type, param }: UpstreamError): Failure {
  const reason = { message, ...(code !== undefined && { upstreamCode: code }), ...(param !== undefined && { param }) };
  const named = (name: string) => code === name || type === name;
  if (named("context_length_exceeded")) return { ...reason, code: "context_too_long", upstreamCode: "context_length_exceeded" };
  if (named("content_filter") || named("content_policy_violation")) return { ...reason, code: "content_filter" };
  switch (status) {
    case 400:
      return { ...reason, code: "invalid_request" };
    case 413:
      return { ...reason, code: "body_too_large" };
    case 422:
      return { ...reason, code: "unprocessable" };
    case 429:
      return { code: "rate_limited", message: "The upstream of this model takes no more requests at the moment; try again later." };
    case 401:
    case 403:
    case 404:
      return { code: "upstream_failed", message: "The upstream of this model refused the gateway; its operator has been told." };
    case 408:
    case 504:
      return { code: "upstream_timeout", message: "The upstream of this model did not answer in time." };
    case 503:
    case 529:
      return { code: "overloaded", message: "The upstream of this model is overloaded; try again in a moment." };
    default:
      return { code: "upstream_failed", message: "The upstream of this model failed; try again in a moment." };
  }
}

function usageOf(value: unknown): Usage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const usage = value as Record<string, unknown>;
  const detail = (name: string, field: string) => tokens((usage[name] as Record<string, unknown> | null | undefined)?.[field]);
  return {
    inputTokens: tokens(usage.prompt_tokens),
    cachedInputTokens: detail("prompt_tokens_details", "cached_tokens"),
    outputTokens: tokens(usage.completion_tokens),
    reasoningTokens: detail("completion_tokens_details", "reasoning_tokens"),
  };
}

const tokens = (value: unknown): number => (typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0);

function isEmptyArray(bytes: Buffer, { start, end }: { start: number; end: number }): boolean {
  for (let at = start + 1; at < end - 1; at++) if ((bytes[at] as number) > 0x20) return false;
  return true;
}

/** Is there a `finish_reason` that is a string, and not an empty one? It spares the parsing of most chunks. */
function mayFinish(bytes: Buffer, { start, end }: Span): boolean {
  for (let at = bytes.indexOf(finishReason, start); at >= 0 && at < end; at = bytes.indexOf(finishReason, at)) {
    at += finishReason.length;
    while ((bytes[at] as number) <= 0x20 || bytes[at] === 0x3a) at++;
    if (bytes[at] === 0x22 && bytes[at + 1] !== 0x22) return true;
  }
  return false;
}

interface ChunkChoice {
  index?: unknown;
  delta?: Record<string, unknown> | null;
  finish_reason?: unknown;
}

const choicesIn = (choices: unknown): (ChunkChoice | null)[] => (Array.isArray(choices) ? choices : []);
const isFinish = (reason: unknown) => typeof reason === "string" && reason !== "";

/** The indexes of the choices that end in a chunk. */
const finishedIn = (choices: unknown): unknown[] =>
  choicesIn(choices).flatMap((choice, place) => (isFinish(choice?.finish_reason) ? [choice?.index ?? place] : []));

/** Is there more in a chunk than the role that opens an answer? */
function hasContent(choices: unknown): boolean {
  return choicesIn(choices).some((choice) => {
    if (isFinish(choice?.finish_reason)) return true;
    return Object.entries(choice?.delta ?? {}).some(([name, value]) => name !== "role" && value != null && value !== "");
  });
}
