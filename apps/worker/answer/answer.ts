/**
 * Chooses how an upstream's response is read: as a stream, a whole answer, bytes, an error, or an
 * answer in another framing than requested (a stream for a whole answer, or the reverse).
 */
import { retryAfterSecondsOf } from "#wire/retry-after.ts";
import type { Reading } from "../preparation/exchange.ts";
import { type AnswerReader, isAnswerStatus } from "./answer-reader.ts";
import { BytesReader } from "./bytes-reader.ts";
import { ErrorReader } from "./error-reader.ts";
import { FoldingReader } from "./folding-reader.ts";
import { SessionReader } from "./session-reader.ts";
import { StreamReader } from "./stream-reader.ts";
import { WholeReader } from "./whole-reader.ts";

/** The head of an upstream's response. */
export interface UpstreamHead {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Epoch milliseconds, for a Retry-After that is a date. */
  arrivedAt: number;
}

/**
 * The reader of a response. Some servers label events as JSON, or JSON as events, so the first byte
 * that is not white space decides; undefined if there is none. `isQuoted` is that of `failureOf`.
 */
export function readerOf(
  { status, headers, arrivedAt }: UpstreamHead,
  reading: Reading,
  firstByte: number | undefined,
  isQuoted?: (text: string) => boolean,
): AnswerReader {
  const errorReader = () => new ErrorReader(status, reading, retryAfterSecondsOf(headers, arrivedAt), isQuoted);
  if (!isAnswerStatus(status)) return errorReader();
  const { adapted, raw, bytesMax } = reading;
  const type = String(headers["content-type"] ?? "").toLowerCase();
  if (raw?.kind === "session") return new SessionReader(raw.session);
  // Some servers answer a request for a stream in a text.
  if (raw?.kind === "text" && (!reading.streams || !/^(?:$|text\/event-stream|application\/json)/.test(type)))
    return new WholeReader(reading.whole, bytesMax);
  // Some servers report errors with a success status.
  if (raw?.kind === "bytes")
    return /^(?:application\/json|text\/)/.test(type) ? errorReader() : new BytesReader(raw.usage);
  const isJson =
    isJsonStart(firstByte) ??
    (reading.streams ? type.startsWith("application/json") : !type.startsWith("text/event-stream"));
  if (reading.streams) {
    if (!isJson && reading.stream !== undefined) return new StreamReader(reading.stream(), bytesMax);
    return adapted === undefined ? errorReader() : new WholeReader(adapted.toStream, bytesMax);
  }
  if (isJson) return new WholeReader(reading.whole, bytesMax);
  return adapted?.events === undefined ? errorReader() : new FoldingReader(adapted.events(), bytesMax);
}

/**
 * True for the start of a JSON object or list, false for the start of an event stream, undefined
 * for anything else.
 */
function isJsonStart(byte: number | undefined): boolean | undefined {
  const character = byte === undefined ? "" : String.fromCharCode(byte);
  if (character === "{" || character === "[") return true;
  return character !== "" && ":deir".includes(character) ? false : undefined;
}
