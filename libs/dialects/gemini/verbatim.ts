/**
 * Verbatim relay between a caller and an upstream that both speak Google's Gemini: bytes stay
 * unchanged except for the model's name.
 */

import { isPresent, type JsonObject, jsonBytesOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import {
  elementSpansOf,
  isEmptyArray,
  isNull,
  memberSpansOf,
  objectSpansOf,
  readSpan,
  replaceSpans,
  withElements,
  withMembers,
  withValues,
} from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { AnswerIdentity, Verbatim, WholeAnswer } from "../codec.ts";
import { emptyAnswer, finishIn } from "../neutral/finish.ts";
import { geminiPart, type Produced } from "../neutral/produced.ts";
import { unwrappedSignature, wrappedSignatureMark } from "../neutral/wrapped-signature.ts";
import { failedWith, type Passing, VerbatimStream, Watcher, withMember } from "../relay/verbatim.ts";
import { isErrorBody, upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { laterUsage, type Units, type Usage } from "../usage.ts";
import { errorIn, failureIn, isBlocked, isFinish, searchesIn, usageOf } from "./answer.ts";
import { attachmentFinder } from "./attachments.ts";
import { bypass, bypassOf } from "./model-turn.ts";
import { dialect } from "./parts.ts";
import { answerPathOf } from "./request.ts";
import { Frames } from "./stream.ts";

/**
 * Calls without a signature in a caller's conversation, for models that require Google's signature
 * on each turn's first call.
 */
const callMarks = ['"functionCall"', '"function_call"'];
const signatureNames = ["thoughtSignature", "thought_signature"] as const;

/**
 * The body with `unsigned` as the signature of each model turn's first call that has none, such as
 * one made by another vendor's model. Every other byte stays.
 * https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
function withSignedCalls(bytes: Buffer, unsigned: string): Buffer {
  if (!callMarks.some((mark) => bytes.includes(mark))) return bytes;
  return withContents(bytes, (content) => signedTurn(content, unsigned));
}

function signedTurn(content: Buffer, unsigned: string): Buffer {
  if (parsedObject(content)?.role !== "model") return content;
  let hasCall = false;
  return withMembers(content, "parts", (parts) =>
    withItems(parts, (part) => {
      const { functionCall, function_call: otherCall, ...others } = parsedObject(part) ?? {};
      if (hasCall || (functionCall ?? otherCall ?? null) === null) return part;
      hasCall = true;
      if (signatureNames.some((name) => textOf(others[name]) !== undefined)) return part;
      const name = signatureNames.find((spelling) => spelling in others) ?? "thoughtSignature";
      return withValues(part, { [name]: jsonBytesOf(unsigned) });
    }),
  );
}

/**
 * Continuation tokens, which only the vendor that stores the answer can use; stateless.ts rejects
 * them in requests.
 */
const continuations = [Buffer.from('"continuationToken"'), Buffer.from('"CONTINUATION"')];
const eventEnd = Buffer.from("\n\n");

export const verbatim: Verbatim = {
  request(bytes, framing, { model, traits }) {
    if (objectSpansOf(bytes, []) === undefined) return undefined;
    const unsigned = bypassOf(traits);
    const own = bytes.includes(wrappedSignatureMark) ? withoutWrappedSignatures(bytes, unsigned) : bytes;
    const body = unsigned === undefined ? own : withSignedCalls(own, unsigned);
    return { path: answerPathOf(model, framing), body };
  },
  repairs: {
    companions: (bytes) => withSignedCalls(withoutSignatures(bytes), bypass),
    signatures: (bytes) => withSignedCalls(bytes, bypass),
  },
  stream: (bytes, framing, { model }) =>
    new VerbatimStream(new GeminiWatcher(model, framing === "array", candidateCountIn(bytes))),
  attachmentFinder,
  answer: answerOf,
};

/**
 * Reasoning of other dialects' models is removed. Their calls get the signature that Google
 * documents for calls that none of its models signed.
 */
const withoutWrappedSignatures = (bytes: Buffer, unsigned: string | undefined) =>
  withContents(bytes, (content) => {
    let isEmpty = false;
    const kept = withMembers(content, "parts", (parts) => {
      const changed = withItems(parts, (part) => keptPart(part, unsigned));
      isEmpty ||= changed === undefined || (changed !== parts && isEmptyArray(changed));
      return changed;
    });
    return isEmpty ? undefined : kept;
  });

const withoutSignatures = (bytes: Buffer) =>
  withContents(bytes, (content) =>
    withMembers(content, "parts", (parts) => withItems(parts, (part) => withSignature(part, undefined))),
  );

const withSignature = (bytes: Buffer, by: string | undefined) =>
  signatureNames.reduce(
    (part, name) => withMembers(part, name, () => (by === undefined ? undefined : jsonBytesOf(by))),
    bytes,
  );

const withContents = (bytes: Buffer, change: (content: Buffer) => Buffer | undefined) =>
  withMembers(bytes, "contents", (contents) => withItems(contents, change));

/** The format also allows a single item in place of a list. */
const withItems = (items: Buffer, change: (item: Buffer) => Buffer | undefined) =>
  elementSpansOf(items) === undefined ? change(items) : withElements(items, change);

function keptPart(bytes: Buffer, unsigned: string | undefined): Buffer | undefined {
  const { thoughtSignature, thought_signature: other, ...bare } = parsedObject(bytes) ?? {};
  const signature = unwrappedSignature(String(thoughtSignature ?? other ?? ""))?.signature;
  if (signature === undefined) return bytes;
  if (signature.dialect === dialect) return withSignature(bytes, signature.data);
  const isCall = bare.functionCall !== undefined || bare.function_call !== undefined;
  if (isCall && unsigned !== undefined) return withSignature(bytes, unsigned);
  return Object.keys(bare).length === 0 || (bare.text === "" && Object.keys(bare).length === 1)
    ? undefined
    : withSignature(bytes, undefined);
}

function candidateCountIn(bytes: Buffer): number {
  const config = objectSpansOf(bytes, ["generationConfig", "generation_config"])?.all.at(-1);
  if (config === undefined) return 1;
  const value = bytes.subarray(config.start, config.end);
  const count = objectSpansOf(value, ["candidateCount", "candidate_count"])?.all.at(-1);
  return count === undefined || isNull(value, count) ? 1 : Number(readSpan(value, count));
}

/**
 * It is never complete: the upstream marks no end but closes the connection, and everything until
 * then belongs to the answer.
 */
class GeminiWatcher extends Watcher {
  usage: Usage | undefined;
  readonly #model: Buffer;
  readonly #frame: Frames;
  readonly #candidateCount: number;
  readonly #seen = new Set<unknown>();
  readonly #over = new Set<unknown>();
  #blocked = false;
  #committed = false;
  #searches: Units = {};

  constructor(model: string, isList: boolean, candidateCount: number) {
    super();
    this.#model = jsonBytesOf(model);
    this.#frame = new Frames(isList);
    this.#candidateCount = candidateCount;
  }

  get finished(): boolean {
    return this.#blocked || (this.#over.size > 0 && [...this.#seen].every((index) => this.#over.has(index)));
  }

  override get hasAllContent(): boolean {
    return this.#blocked || (!this.contradicted && this.#over.size >= this.#candidateCount);
  }

  override terminator(): Buffer | undefined {
    const text = this.#frame.end();
    return text === "" ? undefined : Buffer.from(text);
  }

  look({ data: sent }: SseEvent, response: JsonObject, produced: Produced): Passing {
    const { candidates: listed, promptFeedback, usageMetadata } = response;
    const error = errorIn(response);
    if (error !== undefined) return failedWith(error);
    const candidates = listOf(listed).map(objectOf);
    const failure = failureIn(candidates);
    if (failure !== undefined) return failedWith(failure);
    for (const { content, finishReason } of candidates) {
      for (const part of listOf(objectOf(content).parts)) geminiPart(objectOf(part), produced);
      produced.finished(finishReason);
    }
    this.#searches = searchesIn(response, this.#searches);
    this.usage = laterUsage(usageOf(usageMetadata, this.#searches), this.usage);
    if (isBlocked(promptFeedback)) this.#blocked = true;
    this.contradicted ||=
      this.finished &&
      candidates.some(({ content }) => listOf(objectOf(content).parts).some((part) => isContent(objectOf(part))));
    this.#read(candidates);
    this.#committed ||= this.#blocked;
    const named = replaceSpans(
      sent,
      memberSpansOf(sent, "modelVersion", response).map(({ start, end }) => ({ start, end, by: this.#model })),
    );
    const data = withoutContinuation(named);
    const bytes = Buffer.concat([Buffer.from(this.#frame.before()), onOneLine(data), eventEnd]);
    return { kind: "relay", bytes, content: this.#committed };
  }

  /** A candidate without an index is the first. */
  #read(candidates: readonly JsonObject[]): void {
    for (const { index, content, finishReason: reason } of candidates) {
      this.#seen.add(index ?? 0);
      if (isFinish(reason)) this.#over.add(index ?? 0);
      this.#committed ||= isAnswered({ content, finishReason: reason });
    }
  }
}

/** True if a candidate has content, or a reason for having none. */
const isAnswered = ({ content, finishReason }: JsonObject) =>
  isFinish(finishReason) || listOf(objectOf(content).parts).some((part) => isContent(objectOf(part)));

/** True if a part has more than an empty text. */
const isContent = (part: JsonObject) =>
  Object.entries(part).some(
    ([name, value]) => name !== "thought" && value !== "" && value !== null && value !== undefined,
  );

const lineFeed = 0x0a;
const separators = [Buffer.from("\u2028"), Buffer.from("\u2029")];

/**
 * One of Google's own clients breaks on an event of several lines, and on characters that some
 * readers take for line ends.
 */
function onOneLine(json: Buffer): Buffer {
  if (!json.includes(lineFeed) && !separators.some((separator) => json.includes(separator))) return json;
  return Buffer.from(
    json.toString("utf8").replaceAll("\n", " ").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029"),
  );
}

/**
 * Removes continuation tokens, which mean nothing to other upstreams. The caller sees a truncated
 * answer instead.
 */
function withoutContinuation(json: Buffer): Buffer {
  if (!continuations.some((mark) => json.includes(mark))) return json;
  const { continuationToken: _, ...response } = objectOf(readSpan(json, { start: 0, end: json.length }));
  if (!Array.isArray(response.candidates)) return json;
  const candidates = response.candidates.map((value: unknown) => {
    const { continuationToken: _, ...candidate } = objectOf(value);
    return candidate.finishReason === "CONTINUATION" ? { ...candidate, finishReason: "MAX_TOKENS" } : candidate;
  });
  return jsonBytesOf({ ...response, candidates });
}

/** A whole answer: the same bytes with the catalogue's model id, and the reported usage. */
function answerOf(sent: Buffer, { model }: AnswerIdentity): WholeAnswer {
  const body = parsedObject(sent);
  if (body === undefined) return { kind: "malformed" };
  const { error, promptFeedback } = body;
  if (isPresent(error)) return failedWith(upstreamErrorOf(body));
  if (body.candidates === undefined && promptFeedback === undefined)
    return isErrorBody(body) ? failedWith(upstreamErrorOf(body)) : { kind: "malformed" };
  const candidates = listOf(body.candidates).map(objectOf);
  const failure = failureIn(candidates);
  if (failure !== undefined) return failedWith(failure);
  if (!isBlocked(promptFeedback) && !candidates.some(isAnswered)) return failedWith(emptyAnswer);
  return {
    kind: "answer",
    body: withMember(withoutContinuation(sent), ["modelVersion"], jsonBytesOf(model)),
    usage: usageOf(body.usageMetadata, searchesIn(body)),
    finish: finishIn(candidates.map(({ finishReason }) => finishReason)),
  };
}
