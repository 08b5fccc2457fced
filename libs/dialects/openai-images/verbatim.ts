/** Verbatim relay of images between a caller and an upstream that both speak OpenAI's images format. */
import type { StreamRelay, WholeAnswer, WireRequest } from "../codec.ts";
import { emptyAnswer } from "../finish.ts";
import {
  elementSpansOf,
  isGiven,
  isNull,
  isObject,
  jsonBytesOf,
  jsonOf,
  listOf,
  objectOf,
  objectSpansOf,
  readSpan,
  replaceSpans,
} from "../json.ts";
import type { SseEvent } from "../sse.ts";
import { upstreamErrorOf } from "../upstream-errors.ts";
import { plainUsageOf, tokensOf, type Usage } from "../usage.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, type Watcher } from "../verbatim.ts";

/** The caller's JSON with the upstream's model name. Undefined if it has no model. */
export function imageRequestOf(bytes: Buffer, model: string): WireRequest | undefined {
  const spans = objectSpansOf(bytes, ["model"]);
  if (spans?.members.model === undefined) return undefined;
  const by = jsonBytesOf(model);
  return {
    path: "/images/generations",
    headers: {},
    body: replaceSpans(
      bytes,
      spans.all.map(({ start, end }) => ({ start, end, by })),
    ),
  };
}

export function imageAnswerOf(bytes: Buffer): WholeAnswer {
  const spans = objectSpansOf(bytes, ["data", "error", "usage"]);
  const { data, error, usage } = spans?.members ?? {};
  if (error !== undefined && !isNull(bytes, error))
    return { kind: "error", error: upstreamErrorOf(readSpan(bytes, error)) };
  if (data === undefined) return { kind: "malformed" };
  const pictures = elementSpansOf(bytes.subarray(data.start, data.end)) ?? [];
  if (
    pictures.length === 0 ||
    !pictures.every(({ start, end }) => isPicture(bytes.subarray(data.start + start, data.start + end)))
  )
    return failedWith(emptyAnswer);
  return { kind: "answer", body: bytes, usage: usage === undefined ? undefined : usageOf(readSpan(bytes, usage)) };
}

function isPicture(bytes: Buffer): boolean {
  const { b64_json: data, url } = objectSpansOf(bytes, ["b64_json", "url"])?.members ?? {};
  return [data, url].some((given) => given !== undefined && !isNull(bytes, given));
}

/** A whole answer as a stream, with one event for each image. `name` is the prefix of event names. */
export function imageEventsOf(bytes: Buffer, name: string): WholeAnswer {
  const answer = imageAnswerOf(bytes);
  if (answer.kind !== "answer") return answer;
  const { data, created, ...others } = objectOf(readSpan(bytes, { start: 0, end: bytes.length }));
  const type = `${name}.completed`;
  const events = listOf(data).map(
    (picture) => `event: ${type}\ndata: ${jsonOf({ type, ...objectOf(picture), created_at: created, ...others })}\n\n`,
  );
  return { ...answer, body: Buffer.from(events.join("")) };
}

/** `count` is the number of requested images. */
export const imageStreamOf = (count: number): StreamRelay => new VerbatimStream(new ImageWatcher(count));

class ImageWatcher implements Watcher {
  readonly contradicted = false;
  usage: Usage | undefined;
  readonly endsWithDone = false;
  readonly #count: number;
  #completed = 0;

  constructor(count: number) {
    this.#count = count;
  }

  /** A service may make fewer images than requested. */
  get finished(): boolean {
    return this.#completed > 0;
  }

  get hasAllContent(): boolean {
    return this.complete;
  }

  get complete(): boolean {
    return this.#completed >= this.#count;
  }

  terminator(): undefined {
    return undefined;
  }

  look({ event, data }: SseEvent, value: Record<string, unknown>): Passing {
    const { type, error, usage } = value;
    const name = event ?? type;
    if (name === "error" || isGiven(error)) return failedWith(upstreamErrorOf(value));
    this.usage = usageOf(usage) ?? this.usage;
    if (typeof name === "string" && name.endsWith(".completed")) this.#completed++;
    return { kind: "relay", bytes: eventBytesOf(event, data), content: true };
  }
}

function usageOf(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const { input_tokens: input, output_tokens: output } = objectOf(value);
  return plainUsageOf(tokensOf(input), tokensOf(output));
}
