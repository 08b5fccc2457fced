/**
 * Reads an upstream's response and makes the caller's bytes of it. One interface covers streams, whole answers, errors, and answers that do
 * not come the way they were requested: a stream for a whole answer, or the reverse.
 */
import type { StreamRelay, WholeAnswer } from "#dialects/codec.ts";
import { type Failure, failureOf, type UpstreamError } from "#dialects/errors.ts";
import type { AnswerEvent } from "#dialects/neutral.ts";
import { Produced } from "#dialects/produced.ts";
import { retryAfterSecondsOf } from "#dialects/retry-after.ts";
import { type SseEvent, SseEventTooLarge, SseReader } from "#dialects/sse.ts";
import type { Usage } from "#dialects/usage.ts";
import type { Reading } from "../preparation/exchange.ts";

/** Bytes of a whole answer, and of one event of a stream, at most. */
const answerBytesMax = 32 << 20;
/** Bytes of an error response that are read. */
const errorBytesMax = 64 * 1024;

/** What the bytes of a response lead to. */
export type AnswerStep = { kind: "more"; bytes: Buffer[] } | { kind: "end"; bytes: Buffer[] } | FailedStep | LateStep;

/** The response is complete; a thread reads it. */
interface LateStep {
  kind: "late";
  bytes: Buffer[];
  step: Promise<AnswerStep>;
}

export interface FailedStep {
  kind: "failed";
  bytes: Buffer[];
  failure: Failure;
  /** The upstream's own Retry-After, however long; whole seconds. */
  retryAfterSeconds?: number;
  /** The upstream's own words, without secrets and addresses, for the operator's log. */
  reason?: string;
}

export interface AnswerReader {
  readonly usage: Usage | undefined;
  /** What the upstream has produced so far; undefined for an answer that it does not stream. */
  readonly produced: Produced | undefined;
  /** Events that could not be read. The answer fails if one of them may have carried content. */
  readonly malformedEvents: number;
  /** Content for the caller was seen. */
  readonly committed: boolean;
  /** Content arrived, whether or not the caller gets it yet. */
  readonly begun: boolean;
  /** The whole answer but its terminator arrived, and nothing after it contradicts that. */
  readonly settled: boolean;
  /** The answer's id in the caller's dialect, if it has one. */
  readonly answerId: string | undefined;
  push(chunk: Buffer): AnswerStep;
  /** The response ended. */
  end(): AnswerStep;
}

const incomplete: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model ended its answer before it was complete.",
};
const unreadable: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model sent an answer that is not in its format.",
};
const redirected: Failure = {
  code: "upstream_failed",
  message:
    "The upstream of this model answered with a redirect, which the gateway does not follow; its operator has been told.",
};
const tooLarge: Failure = {
  code: "upstream_failed",
  message: `The upstream of this model sent more than the ${answerBytesMax} bytes that an answer may hold.`,
};

/** The longest Retry-After that is passed on, so that no caller sleeps for hours. */
const retryAfterSecondsMax = 60;

/** Some servers and proxies answer with a success status other than 200. */
export const isAnswerStatus = (status: number): boolean =>
  status >= 200 && status <= 206 && status !== 204 && status !== 205;

/** The head of an upstream's response. */
export interface UpstreamHead {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Epoch milliseconds, for a Retry-After that is a date. */
  arrivedAt: number;
}

/**
 * The reader of a response. Some servers label events as JSON, or JSON as events, so the first byte that is no white space decides between
 * the two; undefined when there is none. `isQuoted` is that of `failureOf`.
 */
export function readerOf(
  { status, headers, arrivedAt }: UpstreamHead,
  reading: Reading,
  firstByte: number | undefined,
  isQuoted?: (text: string) => boolean,
): AnswerReader {
  const errorReader = () => new ErrorReader(status, reading, retryAfterSecondsOf(headers, arrivedAt), isQuoted);
  if (!isAnswerStatus(status)) return errorReader();
  const { adapted } = reading;
  const type = String(headers["content-type"] ?? "").toLowerCase();
  const isJson =
    isJsonStart(firstByte) ??
    (reading.streams ? type.startsWith("application/json") : !type.startsWith("text/event-stream"));
  if (reading.streams) {
    if (!isJson && reading.stream !== undefined) return new StreamReader(reading.stream());
    return adapted === undefined ? errorReader() : new WholeReader(adapted.toStream);
  }
  if (isJson) return new WholeReader(reading.whole);
  return adapted?.events === undefined ? errorReader() : new FoldingReader(adapted.events());
}

/** True for the start of a JSON object or list, false for the start of an event stream, undefined for anything else. */
function isJsonStart(byte: number | undefined): boolean | undefined {
  const character = byte === undefined ? "" : String.fromCharCode(byte);
  if (character === "{" || character === "[") return true;
  return character !== "" && ":deir".includes(character) ? false : undefined;
}

/** The events of a chunk, or the failure of an event that is too large. */
function eventsIn(reader: SseReader, chunk: Buffer): SseEvent[] | AnswerStep {
  try {
    return reader.push(chunk);
  } catch (error) {
    if (error instanceof SseEventTooLarge) return { kind: "failed", bytes: [], failure: tooLarge };
    throw error;
  }
}

/** The words in an answer may come from anybody, so only an error's codes say something about the operator's account. */
const failedWith = (error: UpstreamError, bytes: Buffer[] = []): FailedStep => ({
  kind: "failed",
  bytes,
  failure: failureOf(error.status ?? 502, error, () => true),
  reason: error.message,
});

type FoldedStream = ReturnType<NonNullable<NonNullable<Reading["adapted"]>["events"]>>;

class StreamReader implements AnswerReader {
  readonly #events = new SseReader(answerBytesMax);
  readonly #answer: StreamRelay;

  constructor(answer: StreamRelay) {
    this.#answer = answer;
  }

  get usage(): Usage | undefined {
    return this.#answer.usage;
  }

  get produced(): Produced {
    return this.#answer.produced;
  }

  get malformedEvents(): number {
    return this.#answer.malformedEvents;
  }

  get committed(): boolean {
    return this.#answer.committed;
  }

  get begun(): boolean {
    return this.#answer.committed;
  }

  get settled(): boolean {
    return this.#answer.settled;
  }

  get answerId(): string | undefined {
    return this.#answer.answerId;
  }

  push(chunk: Buffer): AnswerStep {
    const events = eventsIn(this.#events, chunk);
    return Array.isArray(events) ? this.#read(events) : events;
  }

  end(): AnswerStep {
    const step = this.#read(this.#events.end());
    if (step.kind !== "more") return step;
    if (!this.#answer.finished) return { kind: "failed", bytes: step.bytes, failure: incomplete };
    this.#answer.end(step.bytes);
    return this.#reached(step.bytes);
  }

  #read(events: SseEvent[]): AnswerStep {
    const bytes: Buffer[] = [];
    const answer = this.#answer;
    for (const event of events) answer.push(event, bytes);
    if (answer.error === undefined && answer.complete) answer.end(bytes);
    return this.#reached(bytes);
  }

  #reached(bytes: Buffer[]): AnswerStep {
    const { error, ended } = this.#answer;
    if (error !== undefined) return failedWith(error, bytes);
    return { kind: ended ? "end" : "more", bytes };
  }
}

class WholeReader implements AnswerReader {
  usage: Usage | undefined;
  committed = false;
  readonly begun = true;
  readonly malformedEvents = 0;
  readonly produced = undefined;
  readonly settled = false;
  readonly answerId = undefined;
  readonly #read: Reading["whole"];
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(read: Reading["whole"]) {
    this.#read = read;
  }

  push(chunk: Buffer): AnswerStep {
    this.#bytes += chunk.length;
    if (this.#bytes > answerBytesMax) return { kind: "failed", bytes: [], failure: tooLarge };
    this.#chunks.push(chunk);
    return { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    const answer = this.#read(Buffer.concat(this.#chunks));
    return answer instanceof Promise
      ? { kind: "late", bytes: [], step: answer.then((read) => this.#stepOf(read)) }
      : this.#stepOf(answer);
  }

  #stepOf(answer: WholeAnswer): AnswerStep {
    if (answer.kind === "answer") {
      this.usage = answer.usage;
      this.committed = true;
    }
    return stepOf(answer);
  }
}

function stepOf(answer: WholeAnswer): AnswerStep {
  switch (answer.kind) {
    case "malformed":
      return { kind: "failed", bytes: [], failure: unreadable };
    case "error":
      return failedWith(answer.error);
    case "answer":
      return { kind: "end", bytes: [answer.body] };
    default:
      return answer satisfies never;
  }
}

/** Makes one body of a stream that the upstream sent unrequested. */
class FoldingReader implements AnswerReader {
  usage: Usage | undefined;
  committed = false;
  settled = false;
  readonly malformedEvents = 0;
  readonly produced = new Produced();
  readonly answerId = undefined;
  readonly #events = new SseReader(answerBytesMax);
  readonly #stream: FoldedStream;
  readonly #gathered: AnswerEvent[] = [];
  #bytes = 0;

  constructor(stream: FoldedStream) {
    this.#stream = stream;
  }

  push(chunk: Buffer): AnswerStep {
    this.#bytes += chunk.length;
    if (this.#bytes > answerBytesMax) return { kind: "failed", bytes: [], failure: tooLarge };
    const events = eventsIn(this.#events, chunk);
    if (!Array.isArray(events)) return events;
    return this.#gather(events.flatMap((event) => this.#stream.push(event)));
  }

  end(): AnswerStep {
    const step = this.#gather([
      ...this.#events.end().flatMap((event) => this.#stream.push(event)),
      ...this.#stream.end(),
    ]);
    return step.kind === "more" ? { kind: "failed", bytes: [], failure: incomplete } : step;
  }

  get begun(): boolean {
    return this.#gathered.length > 0;
  }

  #gather(events: AnswerEvent[]): AnswerStep {
    if (this.settled) return { kind: "more", bytes: [] };
    for (const event of events) {
      this.#gathered.push(event);
      this.produced.event(event);
    }
    this.produced.report(this.#stream.usage);
    if (!events.some(({ kind }) => kind === "finish" || kind === "error")) return { kind: "more", bytes: [] };
    const answer = this.#stream.whole(this.#gathered);
    this.settled = true;
    this.committed = answer.kind === "answer";
    if (answer.kind === "answer") this.usage = this.produced.usage;
    return stepOf(answer);
  }
}

/** Reads the reason of an error response, or of a response that is no answer. */
class ErrorReader implements AnswerReader {
  readonly usage = undefined;
  readonly malformedEvents = 0;
  readonly produced = undefined;
  readonly committed = false;
  readonly begun = false;
  readonly settled = false;
  readonly answerId = undefined;
  readonly #status: number;
  readonly #reading: Reading;
  readonly #retryAfterSeconds: number | undefined;
  readonly #isQuoted: ((text: string) => boolean) | undefined;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(
    status: number,
    reading: Reading,
    retryAfterSeconds: number | undefined,
    isQuoted: ((text: string) => boolean) | undefined,
  ) {
    this.#isQuoted = isQuoted;
    this.#status = status;
    this.#reading = reading;
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  push(chunk: Buffer): AnswerStep {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    return this.#bytes > errorBytesMax ? this.end() : { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    const step = this.#read();
    const seconds = this.#retryAfterSeconds ?? step.retryAfterSeconds;
    if (seconds === undefined) return step;
    return {
      ...step,
      retryAfterSeconds: seconds,
      failure: { ...step.failure, retryAfterSeconds: Math.min(retryAfterSecondsMax, Math.max(1, seconds)) },
    };
  }

  #read(): FailedStep {
    const failed = (failure: Failure): FailedStep => ({ kind: "failed", bytes: [], failure });
    if (this.#status >= 300 && this.#status < 400) return failed(redirected);
    const body = this.#body();
    if (
      isAnswerStatus(this.#status) &&
      (typeof body !== "object" || body === null || (body as { error?: unknown }).error == null)
    )
      return failed(unreadable);
    const error = this.#reading.errorOf(body);
    const status = isAnswerStatus(this.#status) ? (error.status ?? 502) : this.#status;
    const { message: reason, retryAfterSeconds } = error;
    return {
      ...failed(failureOf(status, error, this.#isQuoted)),
      reason,
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    };
  }

  /** The JSON value; else the text, which may be a server's plain words or a proxy's page. */
  #body(): unknown {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
}
