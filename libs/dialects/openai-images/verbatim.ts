/**
 * Verbatim relay of images between a caller and an upstream that both speak OpenAI's images format.
 */

import { isObject, isPresent, type JsonObject, jsonBytesOf, listOf, objectOf } from "#wire/json/parse.ts";
import { elementSpansOf, isNull, objectSpansOf, readSpan, replaceSpans } from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { StreamRelay, WholeAnswer, WireRequest } from "../codec.ts";
import { emptyAnswer } from "../neutral/finish.ts";
import type { Produced } from "../neutral/produced.ts";
import { openaiUsageOf } from "../openai/parts.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, Watcher } from "../relay/verbatim.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { generatedImagesOf, plainUsageOf, tokensOf, type Usage } from "../usage.ts";

/** The caller's JSON with the upstream's model name. Undefined if it has no model. */
export function imageRequestOf(bytes: Buffer, path: string, model: string): WireRequest | undefined {
  const spans = objectSpansOf(bytes, ["model"]);
  if (spans?.members.model === undefined) return undefined;
  const by = jsonBytesOf(model);
  return {
    path,
    body: replaceSpans(
      bytes,
      spans.all.map((span) => ({ ...span, by })),
    ),
  };
}

/** `asked` is the request, which says what the answer does not say of the images. */
export function imageAnswerOf(bytes: Buffer, requestedLooks: Looks): WholeAnswer {
  const spans = objectSpansOf(bytes, ["data", "error", "usage", "size", "quality"]);
  const { data, error, usage, size, quality } = spans?.members ?? {};
  if (error !== undefined && !isNull(bytes, error))
    return { kind: "error", error: upstreamErrorOf(readSpan(bytes, error)) };
  if (data === undefined) return { kind: "malformed" };
  const list = bytes.subarray(data.start, data.end);
  const items = (elementSpansOf(list) ?? []).map(({ start, end }) => itemOf(list.subarray(start, end)));
  const pictures = items.filter((item) => item.hasPicture);
  const failure = items.find((item) => item.error !== undefined);
  if (pictures.length === 0 && failure !== undefined) return failedWith(upstreamErrorOf(failure));
  if (pictures.length === 0 || items.some((item) => !item.hasPicture && item.error === undefined))
    return failedWith(emptyAnswer);
  const [reported, ...looks] = [usage, size, quality].map((span) => span && readSpan(bytes, span));
  const images = generatedImagesOf(pictures.length, { size: looks[0], quality: looks[1] }, requestedLooks);
  return { kind: "answer", body: bytes, usage: { ...(usageOf(reported) ?? plainUsageOf(0)), images } };
}

/** How the images of a request shall look. */
export type Looks = Readonly<Record<"size" | "quality", unknown>>;

/** An image, or in its place the error of one that failed among others (Seedream). */
function itemOf(bytes: Buffer): { hasPicture: boolean; error?: unknown } {
  const { b64_json: data, url, error } = objectSpansOf(bytes, ["b64_json", "url", "error"])?.members ?? {};
  const hasPicture = [data, url].some((value) => value !== undefined && !isNull(bytes, value));
  return { hasPicture, ...(error !== undefined && !isNull(bytes, error) && { error: readSpan(bytes, error) }) };
}

/**
 * A whole answer as a stream, with one event for each image. `name` is the prefix of event names.
 */
export function imageEventsOf(bytes: Buffer, name: string, requestedLooks: Looks): WholeAnswer {
  const answer = imageAnswerOf(bytes, requestedLooks);
  if (answer.kind !== "answer") return answer;
  const { data, created, ...others } = objectOf(readSpan(bytes, { start: 0, end: bytes.length }));
  const type = `${name}.completed`;
  const events = listOf(data)
    .map(objectOf)
    .filter((item) => !isPresent(item.error))
    .map((picture) => eventBytesOf(type, jsonBytesOf({ type, ...picture, created_at: created, ...others })));
  return { ...answer, body: Buffer.concat(events) };
}

/** `count` is the number of requested images. */
export const imageStreamOf = (count: number, requestedLooks: Looks): StreamRelay =>
  new VerbatimStream(new ImageWatcher(count, requestedLooks));

class ImageWatcher extends Watcher {
  usage: Usage | undefined;
  readonly #count: number;
  readonly #looks: Looks;
  #completed = 0;

  constructor(count: number, requestedLooks: Looks) {
    super();
    this.#count = count;
    this.#looks = requestedLooks;
  }

  /** A service may make fewer images than requested. */
  get finished(): boolean {
    return this.#completed > 0;
  }

  override get hasAllContent(): boolean {
    return this.complete;
  }

  override get complete(): boolean {
    return this.#completed >= this.#count;
  }

  look({ event, data }: SseEvent, value: JsonObject, produced: Produced): Passing {
    const { type, error, usage } = value;
    const name = String(event ?? type);
    // Seedream goes on after an image that failed: the others follow.
    const isFailure = isPresent(error) && !name.endsWith(".partial_failed");
    if (name === "error" || isFailure) return failedWith(upstreamErrorOf(value));
    this.usage = usageOf(usage) ?? this.usage;
    if (name.endsWith(".completed")) {
      this.#completed++;
      const { generated_images: generated = this.#completed } = objectOf(usage);
      const images = generatedImagesOf(tokensOf(generated), value, this.#looks);
      this.usage = { ...(this.usage ?? plainUsageOf(0)), images };
    }
    produced.other();
    return { kind: "relay", bytes: eventBytesOf(event, data), content: true };
  }
}

/**
 * Without details the output is images, which cost more than text:
 * https://github.com/BerriAI/litellm/issues/31142
 */
function usageOf(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const usage = objectOf(value);
  const { output_tokens: output, output_tokens_details: outputDetails = { image_tokens: output } } = usage;
  return openaiUsageOf({ ...usage, output_tokens_details: outputDetails });
}
