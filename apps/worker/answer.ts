/** From an upstream's answer to the caller's bytes: what is common to streamed and whole answers stands behind one interface. */
import type { Failure } from "#wire/errors.ts";
import { ChatStream, chatBodyOf, failureOf, upstreamErrorOf } from "#wire/openai-chat/answer.ts";
import type { UpstreamChatRequest } from "#wire/openai-chat/request.ts";
import { type SseEvent, SseEventTooLarge, SseReader } from "#wire/sse.ts";
import type { Usage } from "#wire/usage.ts";

/** Bytes of a whole answer, and of one event of a stream, at most. */
const answerBytesMax = 16 << 20;
/** Bytes of an error answer that are read; the rest says nothing new. */
const errorBytesMax = 64 * 1024;

/** What an answer's bytes lead to: bytes for the caller, an end, or a failure. */
export type AnswerStep = { kind: "more"; bytes: Buffer[] } | { kind: "end"; bytes: Buffer[] } | { kind: "failed"; bytes: Buffer[]; failure: Failure };

export interface AnswerReader {
  /** What the caller's head says of the body. */
  readonly contentType: string;
  readonly usage: Usage | undefined;
  /** Events that were no JSON: they are left out of an answer that otherwise completes. */
  readonly malformedEvents: number;
  /** Content was seen: bytes belong to the caller from here on. */
  readonly committed: boolean;
  /** All of the answer is there but its terminator. */
  readonly finished: boolean;
  push(chunk: Buffer): AnswerStep;
  /** The upstream ended its answer. */
  end(): AnswerStep;
}

const incomplete: Failure = { code: "upstream_failed", message: "The upstream of this model ended its answer before it was complete." };
const unreadable: Failure = { code: "upstream_failed", message: "The upstream of this model sent an answer that is not in its format." };
const tooLarge: Failure = {
  code: "upstream_failed",
  message: `The upstream of this model sent more than the ${answerBytesMax} bytes that an answer may hold.`,
};

/** The reader for an answer with this status and content type. `model` is the catalogue's id, which the caller sees. */
export function readerOf(
  status: number,
  contentType: string,
  request: UpstreamChatRequest,
  model: string,
  retryAfterSeconds: number | undefined,
): AnswerReader {
  if (status !== 200) return new ErrorReader(status, retryAfterSeconds);
  const type = contentType.toLowerCase();
  const isOfOtherKind = request.stream ? type.startsWith("application/json") : type.startsWith("text/event-stream");
  if (isOfOtherKind) return new ErrorReader(status, retryAfterSeconds);
  return request.stream ? new StreamReader(request, model) : new WholeReader(model);
}

class StreamReader implements AnswerReader {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly #events = new SseReader(answerBytesMax);
  readonly #answer: ChatStream;

  constructor({ usageShown, choices }: UpstreamChatRequest, model: string) {
    this.#answer = new ChatStream({ model, usageShown, choices });
  }

  get usage(): Usage | undefined {
    return this.#answer.usage;
  }

  get malformedEvents(): number {
    return this.#answer.malformedEvents;
  }

  get committed(): boolean {
    return this.#answer.committed;
  }

  get finished(): boolean {
    return this.#answer.finished;
  }

  push(chunk: Buffer): AnswerStep {
    let events: SseEvent[];
    try {
      events = this.#events.push(chunk);
    } catch (error) {
      if (error instanceof SseEventTooLarge) return { kind: "failed", bytes: [], failure: tooLarge };
      throw error;
    }
    return this.#read(events);
  }

  end(): AnswerStep {
    const step = this.#read(this.#events.end());
    if (step.kind !== "more") return step;
    if (!this.#answer.finished) return { kind: "failed", bytes: step.bytes, failure: incomplete };
    this.#answer.end(step.bytes);
    return { kind: "end", bytes: step.bytes };
  }

  #read(events: SseEvent[]): AnswerStep {
    const bytes: Buffer[] = [];
    const answer = this.#answer;
    for (const event of events) answer.push(event, bytes);
    if (answer.error !== undefined) return { kind: "failed", bytes, failure: failureOf(answer.error.status ?? 502, answer.error) };
    if (answer.complete) answer.end(bytes);
    return { kind: answer.ended ? "end" : "more", bytes };
  }
}

class WholeReader implements AnswerReader {
  readonly contentType = "application/json";
  readonly #model: string;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  usage: Usage | undefined;
  committed = false;
  readonly malformedEvents = 0;
  readonly finished = false;

  constructor(model: string) {
    this.#model = model;
  }

  push(chunk: Buffer): AnswerStep {
    this.#bytes += chunk.length;
    if (this.#bytes > answerBytesMax) return { kind: "failed", bytes: [], failure: tooLarge };
    this.#chunks.push(chunk);
    return { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    const answer = chatBodyOf(Buffer.concat(this.#chunks), this.#model);
    switch (answer.kind) {
      case "malformed":
        return { kind: "failed", bytes: [], failure: unreadable };
      case "error":
        return { kind: "failed", bytes: [], failure: failureOf(answer.error.status ?? 502, answer.error) };
      case "answer":
        this.usage = answer.usage;
        this.committed = true;
        return { kind: "end", bytes: [answer.body] };
      default:
        return answer satisfies never;
    }
  }
}

/** An answer that is an error, or none that can be used: its reason is read as far as there is one. */
class ErrorReader implements AnswerReader {
  readonly contentType = "application/json";
  readonly usage = undefined;
  readonly malformedEvents = 0;
  readonly committed = false;
  readonly finished = false;
  readonly #status: number;
  readonly #retryAfterSeconds: number | undefined;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(status: number, retryAfterSeconds: number | undefined) {
    this.#status = status;
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  push(chunk: Buffer): AnswerStep {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    return this.#bytes > errorBytesMax ? this.end() : { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    const failure = this.#failure();
    return { kind: "failed", bytes: [], failure: this.#retryAfterSeconds === undefined ? failure : { ...failure, retryAfterSeconds: this.#retryAfterSeconds } };
  }

  #failure(): Failure {
    const body = this.#body();
    if (this.#status !== 200) return failureOf(this.#status, upstreamErrorOf(body?.error ?? body));
    if (body?.error == null) return unreadable;
    const error = upstreamErrorOf(body.error);
    return failureOf(error.status ?? 502, error);
  }

  #body(): { error?: unknown } | null | undefined {
    try {
      return JSON.parse(Buffer.concat(this.#chunks).toString("utf8")) as { error?: unknown } | null;
    } catch {
      return undefined;
    }
  }
}
