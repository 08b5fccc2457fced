/** Requests and answers in OpenAI's chat-completions format between a caller and an upstream that both speak it: bytes stay as they were sent, but for the model's name. */
import type { Framing, Target, Verbatim, WholeAnswer } from "../codec.ts";
import { envelopeMark, isEnvelope } from "../envelope.ts";
import { isNull, objectOf, objectSpansOf, readSpan, removalsOf, replaceSpans, type Span } from "../json.ts";
import type { SseEvent } from "../sse.ts";
import type { Usage } from "../usage.ts";
import { eventBytesOf, type Passing, VerbatimStream, type Watcher } from "../verbatim.ts";
import { upstreamErrorOf, usageOf } from "./answer.ts";

type Member = "model" | "usage" | "error" | "choices";
const memberNames: readonly Member[] = ["model", "usage", "error", "choices"];
const doneData = Buffer.from("[DONE]");
const doneEvent = Buffer.from("data: [DONE]\n\n");
const finishReason = Buffer.from('"finish_reason"');

export const verbatim: Verbatim = {
  request(bytes, framing, target) {
    const body = requestOf(bytes.includes(envelopeMark) ? withoutEnvelopes(bytes) : bytes, framing, target);
    return body === undefined ? undefined : { path: "/chat/completions", headers: {}, body };
  },
  stream: (bytes, _framing, model) => new VerbatimStream(new ChatWatcher(model, askedIn(bytes))),
  answer: answerOf,
};

/**
 * The caller's bytes with the upstream's model name, all else as it was but for `store`, which is false, and `stream_options`: a stream is asked for its usage, and what
 * is no stream, or goes to an upstream without `streamUsage`, is sent none. Undefined when the bytes are not a JSON object with a model.
 */
function requestOf(bytes: Buffer, framing: Framing, { model, streamUsage }: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model", "stream_options", "store"]);
  if (spans?.members.model === undefined) return undefined;
  const options = spans.members.stream_options;
  const name = Buffer.from(JSON.stringify(model));
  const replacements: (Span & { by: Buffer })[] = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by: name }));
  for (const { name: member, start, end } of spans.all)
    if (member === "store" && readSpan(bytes, { start, end }) === true) replacements.push({ start, end, by: Buffer.from("false") });
  const allOptions = spans.all.filter((member) => member.name === "stream_options");
  if (framing === "whole" || !streamUsage) for (const removal of removalsOf(bytes, allOptions)) replacements.push(removal);
  else if (options === undefined) replacements.push({ start: spans.close, end: spans.close, by: Buffer.from(',"stream_options":{"include_usage":true}') });
  else {
    const asked = usageAskedIn(bytes.subarray(options.start, options.end));
    if (asked !== undefined) replacements.push({ ...options, by: asked });
  }
  replacements.sort((left, right) => left.start - right.start);
  return replaceSpans(bytes, replacements);
}

/** What of a request its answer depends on: whether the caller wants to see the usage of a stream, and how many choices it asked for. */
function askedIn(bytes: Buffer): { usageShown: boolean; choices: number } {
  const { stream_options: options, n } = objectSpansOf(bytes, ["stream_options", "n"])?.members ?? {};
  return {
    usageShown: options !== undefined && usageAskedIn(bytes.subarray(options.start, options.end)) === undefined,
    choices: n === undefined || isNull(bytes, n) ? 1 : Number(readSpan(bytes, n)),
  };
}

/** Thoughts of other dialects' models, which earlier answers of this conversation may hold, are of no use to this upstream, which may refuse the field. */
function withoutEnvelopes(bytes: Buffer): Buffer {
  const body = objectOf(readSpan(bytes, { start: 0, end: bytes.length }));
  if (!Array.isArray(body.messages)) return bytes;
  const messages = body.messages.map((message: unknown) => {
    const { reasoning_details: details, ...others } = objectOf(message);
    if (!Array.isArray(details)) return message;
    const kept = details.filter((detail) => !isEnvelope(String(objectOf(detail).signature ?? objectOf(detail).data ?? "")));
    return kept.length === 0 ? others : { ...others, reasoning_details: kept };
  });
  return Buffer.from(JSON.stringify({ ...body, messages }));
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

class ChatWatcher implements Watcher {
  usage: Usage | undefined;
  answerId: string | undefined;
  readonly #model: Buffer;
  readonly #usageShown: boolean;
  readonly #choices: number;
  readonly #finishedChoices = new Set<unknown>();
  #usageChunkSeen = false;
  #committed = false;

  constructor(model: string, { usageShown, choices }: { usageShown: boolean; choices: number }) {
    this.#model = Buffer.from(JSON.stringify(model));
    this.#usageShown = usageShown;
    this.#choices = choices;
  }

  /** Every choice has its finish reason: the answer lacks at most its usage and its terminator. */
  get finished(): boolean {
    return this.#finishedChoices.size >= this.#choices;
  }

  get complete(): boolean {
    return this.finished && this.#usageChunkSeen;
  }

  terminator(): Buffer {
    return doneEvent;
  }

  look({ data, event }: SseEvent): Passing {
    if (data.equals(doneData)) return { kind: "terminator", bytes: doneEvent };
    const spans = objectSpansOf(data, memberNames);
    if (spans === undefined && event === "error") return { kind: "error", error: upstreamErrorOf(data.toString("utf8")) };
    if (spans === undefined) return { kind: "malformed" };
    const { error, usage, choices } = spans.members;
    if (event === "error" || (error !== undefined && !isNull(data, error)))
      return { kind: "error", error: upstreamErrorOf(readSpan(data, error ?? { start: 0, end: data.length })) };
    const choicesEmpty = choices === undefined || isEmptyArray(data, choices);
    if (usage !== undefined && !isNull(data, usage)) {
      this.usage = usageOf(readSpan(data, usage)) ?? this.usage;
      if (choicesEmpty) {
        this.#usageChunkSeen = true;
        if (!this.#usageShown) return { kind: "hidden" };
      }
    }
    if (!choicesEmpty && mayFinish(data, choices)) for (const index of finishedIn(readSpan(data, choices))) this.#finishedChoices.add(index);
    this.#committed ||= !choicesEmpty && hasContent(readSpan(data, choices));
    const names = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by: this.#model }));
    return { kind: "relay", bytes: eventBytesOf(undefined, data, names), content: this.#committed };
  }
}

/** A complete (not streamed) answer: the same bytes with the catalogue's model id, and the usage it reports. */
function answerOf(bytes: Buffer, model: string): WholeAnswer {
  const spans = objectSpansOf(bytes, memberNames);
  if (spans === undefined) return { kind: "malformed" };
  const { error, usage, choices } = spans.members;
  if (error !== undefined && !isNull(bytes, error)) return { kind: "error", error: upstreamErrorOf(readSpan(bytes, error)) };
  if (choices === undefined) return { kind: "malformed" };
  const by = Buffer.from(JSON.stringify(model));
  const names = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by }));
  return { kind: "answer", body: replaceSpans(bytes, names), usage: usage === undefined ? undefined : usageOf(readSpan(bytes, usage)) };
}

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
