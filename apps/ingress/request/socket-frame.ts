/**
 * The frames of a WebSocket, each one JSON object
 * (https://platform.openai.com/docs/guides/websocket-mode).
 */

import type { OutgoingHttpHeaders } from "node:http";
import type { Failure } from "#dialects/errors.ts";
import { type ObjectSpans, objectSpansOf, readSpan, removalsOf, replaceSpans } from "#wire/json/spans.ts";
import { bodyFieldsMax, frameMemberBytesMax } from "../common/bounds.ts";
import { Refusal, type Result, refusalOf } from "../common/refusal.ts";
import { readJson } from "./body.ts";

/**
 * Members of a frame that do not belong to the request's body; `stream` is for POST requests alone.
 */
const envelopeNames = ["type", "stream_id", "previous_response_id", "generate", "stream"] as const;
const frameNames = [...envelopeNames, "input"] as const;

/** A caller's frame. Only its outermost structure is checked. */
export interface CallerFrame {
  bytes: Buffer;
  type: unknown;
  /** The caller's name for a stream on this connection; every frame of the answer carries it. */
  streamId: string | undefined;
  spans: ObjectSpans<(typeof frameNames)[number]>;
}

const streamIdForm = /^[A-Za-z0-9_.-]{1,256}$/;
const openBracket = 0x5b;
const quote = 0x22;
const space = 0x20;
const comma = Buffer.from(",");
const openList = Buffer.from("[");
const closeList = Buffer.from("]");
const stringMessage = [Buffer.from('{"type":"message","role":"user","content":'), Buffer.from("}")] as const;

/** Refuses bytes that are not a JSON object. */
export function callerFrameOf(bytes: Buffer): Result<CallerFrame> {
  const spans = objectSpansOf(bytes, frameNames, bodyFieldsMax);
  if (spans === undefined) {
    const read = readJson(bytes);
    return read instanceof Refusal
      ? read
      : refusalOf(`A frame must be a JSON object of at most ${bodyFieldsMax} fields.`);
  }
  const type = memberOf({ bytes, spans }, "type");
  if (type instanceof Refusal) return type;
  const streamId = memberOf({ bytes, spans }, "stream_id") ?? undefined;
  if (streamId instanceof Refusal) return streamId;
  if (streamId === undefined || (typeof streamId === "string" && streamIdForm.test(streamId)))
    return { bytes, spans, type, streamId };
  return refusalOf(`'stream_id' must be a string of the form ${streamIdForm.source}.`, "stream_id");
}

/** Refuses a long value. */
const memberOf = (
  { bytes, spans }: Pick<CallerFrame, "bytes" | "spans">,
  name: (typeof frameNames)[number],
): unknown => {
  const span = spans.members[name];
  if (span === undefined) return undefined;
  return span.end - span.start > frameMemberBytesMax
    ? refusalOf(`'${name}' is too long.`, name)
    : readSpan(bytes, span);
};

/**
 * The answer that a turn continues, and whether it wants an answer of its own. Refuses members of
 * the wrong type.
 */
export function turnOf(frame: CallerFrame): Result<{ previousId: string | undefined; generates: boolean }> {
  const previousId = memberOf(frame, "previous_response_id") ?? undefined;
  if (previousId instanceof Refusal) return previousId;
  if (previousId !== undefined && typeof previousId !== "string")
    return refusalOf("'previous_response_id' must be string or null.", "previous_response_id");
  const generates = memberOf(frame, "generate") ?? true;
  if (generates instanceof Refusal) return generates;
  if (typeof generates !== "boolean") return refusalOf("'generate' must be boolean or null.", "generate");
  return { previousId, generates };
}

/**
 * The items of a frame's input as JSON, separated by commas; empty when there are none. A copy that
 * shares no memory with the frame.
 */
export function itemsOf({ bytes, spans: { members } }: CallerFrame): Buffer {
  const { start, end } = members.input ?? { start: 0, end: 0 };
  if (bytes[start] === quote) return Buffer.concat([stringMessage[0], bytes.subarray(start, end), stringMessage[1]]);
  if (members.input === undefined || bytes[start] !== openBracket) return Buffer.alloc(0);
  const inner = bytes.subarray(start + 1, end - 1);
  let at = 0;
  while (at < inner.length && (inner[at] as number) <= space) at++;
  return at === inner.length ? Buffer.alloc(0) : Buffer.from(inner);
}

/** The list of these items, in parts. */
const listOf = (items: readonly Buffer[]): Buffer[] => {
  const filledItems = items.filter(({ length }) => length > 0);
  return [openList, ...filledItems.flatMap((part, index) => (index === 0 ? [part] : [comma, part])), closeList];
};

/**
 * The frame as the body of a streaming POST request: every byte as it was sent, except the frame's
 * own members. `items` replace the input and the reference to the answer before it.
 */
export function bodyOf({ bytes, spans }: CallerFrame, items?: readonly Buffer[]): Buffer {
  const { input } = spans.members;
  const type = spans.all.find(({ name }) => name === "type");
  const isOfFrame = (name: string) =>
    envelopeNames.some((envelopeName) => envelopeName === name) &&
    !(name === "previous_response_id" && items === undefined);
  const removed = spans.all.filter((member) => member !== type && isOfFrame(member.name));
  // The parts of the input come before a removal that begins where the input ends.
  const replaced = [
    ...(items === undefined || input === undefined
      ? []
      : listOf(items).map((by, place) => ({ start: place === 0 ? input.start : input.end, end: input.end, by }))),
    ...removalsOf(bytes, removed),
    ...(type === undefined ? [] : [{ start: type.nameStart, end: type.end, by: Buffer.from('"stream":true') }]),
  ];
  return replaceSpans(
    bytes,
    replaced.sort((one, other) => one.start - other.start),
  );
}

/** A failure with its own name in this dialect, by which clients recognise it. */
export const socketFailure = (name: string, message: string, param?: string): Failure => ({
  code: "invalid_request",
  upstreamCode: name,
  message,
  ...(param !== undefined && { param }),
});

const frameHeaders = /^(x-request-id|x-upstream-request-id|retry-after|x-should-retry|x-ratelimit-.*)$/;

/** An error response as one frame: its status, headers and body. */
export function errorFrameOf(
  status: number,
  headers: OutgoingHttpHeaders,
  body: string,
  streamId: string | undefined,
): Buffer {
  const passedOn = Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (frameHeaders.test(name) ? [[name, String(value)]] : [])),
  );
  const { error } = JSON.parse(body) as { error: object };
  return frameOf({ type: "error", status, error: { ...error, headers: passedOn } }, streamId);
}

/** An event as a frame of the stream with this id. */
export const frameOf = (event: object, streamId: string | undefined): Buffer =>
  Buffer.from(JSON.stringify(streamId === undefined ? event : { ...event, stream_id: streamId }));

/** An event's JSON as a frame of the stream with this id. */
export const withStreamId = (data: Buffer, streamId: string | undefined): Buffer =>
  streamId === undefined
    ? data
    : Buffer.concat([Buffer.from(`{"stream_id":"${streamId}",`), data.subarray(data.indexOf("{") + 1)]);
