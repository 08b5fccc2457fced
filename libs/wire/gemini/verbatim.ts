/** Requests and answers in Google's Gemini format between a caller and an upstream that both speak it: bytes stay as they were sent, but for the model's name. */
import type { Verbatim, WholeAnswer } from "../codec.ts";
import { envelopeMark, opened } from "../envelope.ts";
import { isNull, jsonOf, listOf, objectOf, objectSpansOf, readSpan, replaceSpans } from "../json.ts";
import type { SseEvent } from "../sse.ts";
import type { Usage } from "../usage.ts";
import { type Passing, VerbatimStream, type Watcher } from "../verbatim.ts";
import { isBlocked, isFinish, upstreamErrorOf, usageOf } from "./answer.ts";
import { bypassOf } from "./model-turn.ts";
import { itemsOf } from "./names.ts";
import { dialect } from "./parts.ts";
import { answerPathOf } from "./request.ts";
import { done, Frames } from "./stream.ts";
import { withSignedCalls } from "./unsigned-calls.ts";

type Member = "candidates" | "promptFeedback" | "usageMetadata" | "modelVersion" | "error";
const memberNames: readonly Member[] = ["candidates", "promptFeedback", "usageMetadata", "modelVersion", "error"];
const doneData = Buffer.from(done);
const finishReason = Buffer.from('"finishReason"');
/** What only the vendor that keeps an answer can go on with; see stateless.ts for the way back. */
const continuations = [Buffer.from('"continuationToken"'), Buffer.from('"CONTINUATION"')];
const eventEnd = Buffer.from("\n\n");

export const verbatim: Verbatim = {
  request(bytes, framing, { model }) {
    if (objectSpansOf(bytes, []) === undefined) return undefined;
    const unsigned = bypassOf(model);
    const own = bytes.includes(envelopeMark) ? withoutEnvelopes(bytes, unsigned) : bytes;
    const body = unsigned === undefined ? own : withSignedCalls(own, unsigned);
    return { path: answerPathOf(model, framing), headers: {}, body };
  },
  stream: (bytes, framing, model) => new VerbatimStream(new GeminiWatcher(model, framing === "array", candidatesAskedIn(bytes))),
  answer: answerOf,
};

/** What another dialect's model thought is of no use here. Its calls bear what Google documents for those that none of its models has signed. */
function withoutEnvelopes(bytes: Buffer, unsigned: string | undefined): Buffer {
  const body = objectOf(readSpan(bytes, { start: 0, end: bytes.length }));
  const contents = itemsOf(body.contents, "").map(([content]) => {
    const parts = itemsOf(objectOf(content).parts, "").flatMap(([part]) => partWithout(objectOf(part), unsigned));
    return { ...objectOf(content), parts };
  });
  return Buffer.from(jsonOf({ ...body, contents: contents.filter(({ parts }) => parts.length > 0) }));
}

function partWithout(part: Record<string, unknown>, unsigned: string | undefined): Record<string, unknown>[] {
  const { thoughtSignature, thought_signature: other, ...bare } = part;
  const signature = opened(String(thoughtSignature ?? other ?? ""))?.signature;
  if (signature === undefined) return [part];
  if (signature.dialect === dialect) return [{ ...bare, thoughtSignature: signature.data }];
  const isCall = bare.functionCall !== undefined || bare.function_call !== undefined;
  if (isCall && unsigned !== undefined) return [{ ...bare, thoughtSignature: unsigned }];
  return Object.keys(bare).length === 0 || (bare.text === "" && Object.keys(bare).length === 1) ? [] : [bare];
}

function candidatesAskedIn(bytes: Buffer): number {
  const config = objectSpansOf(bytes, ["generationConfig", "generation_config"])?.all.at(-1);
  if (config === undefined) return 1;
  const value = bytes.subarray(config.start, config.end);
  const count = objectSpansOf(value, ["candidateCount", "candidate_count"])?.all.at(-1);
  return count === undefined || isNull(value, count) ? 1 : Number(readSpan(value, count));
}

class GeminiWatcher implements Watcher {
  usage: Usage | undefined;
  readonly answerId = undefined;
  /** An upstream says no more when it is done, and ends the connection: what comes until then belongs to the answer. */
  readonly complete = false;
  readonly #model: Buffer;
  readonly #frame: Frames;
  /** With several candidates, all events are read: there may be fewer than were asked for. */
  readonly #readsAll: boolean;
  readonly #seen = new Set<unknown>();
  readonly #over = new Set<unknown>();
  #blocked = false;
  #committed = false;

  constructor(model: string, isList: boolean, candidatesAsked: number) {
    this.#model = Buffer.from(jsonOf(model));
    this.#frame = new Frames(isList);
    this.#readsAll = candidatesAsked > 1;
  }

  get finished(): boolean {
    return this.#blocked || (this.#over.size > 0 && [...this.#seen].every((index) => this.#over.has(index)));
  }

  terminator(): Buffer | undefined {
    const text = this.#frame.end();
    return text === "" ? undefined : Buffer.from(text);
  }

  look({ data: sent, event }: SseEvent): Passing {
    if (sent.equals(doneData)) return { kind: "hidden" };
    const data = withoutContinuation(sent);
    const spans = objectSpansOf(data, memberNames);
    if (spans === undefined && event === "error") return { kind: "error", error: upstreamErrorOf(data.toString("utf8")) };
    if (spans === undefined) return { kind: "malformed" };
    const { candidates, promptFeedback, usageMetadata, error } = spans.members;
    if (event === "error" || (error !== undefined && !isNull(data, error)))
      return { kind: "error", error: upstreamErrorOf(readSpan(data, error ?? { start: 0, end: data.length })) };
    if (usageMetadata !== undefined) this.usage = usageOf(readSpan(data, usageMetadata)) ?? this.usage;
    if (promptFeedback !== undefined && isBlocked(readSpan(data, promptFeedback))) this.#blocked = true;
    if (candidates !== undefined && (this.#readsAll || !this.#committed || data.includes(finishReason)))
      this.#read(listOf(readSpan(data, candidates)).map(objectOf));
    this.#committed ||= this.#blocked;
    const names = spans.all.filter(({ name }) => name === "modelVersion").map(({ start, end }) => ({ start, end, by: this.#model }));
    const bytes = Buffer.concat([Buffer.from(this.#frame.before()), onOneLine(replaceSpans(data, names)), eventEnd]);
    return { kind: "relay", bytes, content: this.#committed };
  }

  /** A candidate without an index is the first. */
  #read(candidates: Record<string, unknown>[]): void {
    for (const { index, content, finishReason: reason } of candidates) {
      this.#seen.add(index ?? 0);
      if (isFinish(reason)) this.#over.add(index ?? 0);
      this.#committed ||= isFinish(reason) || listOf(objectOf(content).parts).some((part) => isContent(objectOf(part)));
    }
  }
}

/** Is there more in a part than an empty text? */
const isContent = (part: Record<string, unknown>): boolean =>
  Object.entries(part).some(([name, value]) => name !== "thought" && value !== "" && value !== null && value !== undefined);

const lineFeed = 0x0a;
const separators = [Buffer.from("\u2028"), Buffer.from("\u2029")];

/** One of Google's own clients breaks on an event of several lines, and on characters that some take for the end of a line. */
function onOneLine(json: Buffer): Buffer {
  if (!json.includes(lineFeed) && !separators.some((separator) => json.includes(separator))) return json;
  return Buffer.from(json.toString("utf8").replaceAll("\n", " ").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029"));
}

/** Clients continue an answer of which a vendor keeps the rest, by a token that means nothing to any other upstream: for them, it was cut off. */
function withoutContinuation(json: Buffer): Buffer {
  if (!continuations.some((mark) => json.includes(mark))) return json;
  const { continuationToken: _, ...response } = objectOf(readSpan(json, { start: 0, end: json.length }));
  if (!Array.isArray(response.candidates)) return json;
  const candidates = response.candidates.map((value: unknown) => {
    const { continuationToken: _, ...candidate } = objectOf(value);
    return candidate.finishReason === "CONTINUATION" ? { ...candidate, finishReason: "MAX_TOKENS" } : candidate;
  });
  return Buffer.from(jsonOf({ ...response, candidates }));
}

/** A complete (not streamed) answer: the same bytes with the catalogue's model id, and the usage it reports. */
function answerOf(sent: Buffer, model: string): WholeAnswer {
  const bytes = withoutContinuation(sent);
  const spans = objectSpansOf(bytes, memberNames);
  if (spans === undefined) return { kind: "malformed" };
  const { candidates, promptFeedback, usageMetadata, error } = spans.members;
  if (error !== undefined && !isNull(bytes, error)) return { kind: "error", error: upstreamErrorOf(readSpan(bytes, error)) };
  if (candidates === undefined && promptFeedback === undefined) return { kind: "malformed" };
  const by = Buffer.from(jsonOf(model));
  const names = spans.all.filter(({ name }) => name === "modelVersion").map(({ start, end }) => ({ start, end, by }));
  return { kind: "answer", body: replaceSpans(bytes, names), usage: usageMetadata === undefined ? undefined : usageOf(readSpan(bytes, usageMetadata)) };
}
