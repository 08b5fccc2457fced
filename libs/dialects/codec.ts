/**
 * A codec reads and writes the requests and answers of one dialect, and relays those of its own
 * dialect unchanged. It is pure and synchronous.
 */

import type { JsonObject } from "#wire/json/parse.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { UpstreamError } from "./errors.ts";
import type { Continuation, RelayedText } from "./neutral/continuation.ts";
import type { ModelTraits } from "./neutral/model-traits.ts";
import type { Answer, AnswerEvent, ContentEvent, Finish, NeutralRequest } from "./neutral/neutral.ts";
import type { Produced, ProducedCounts } from "./neutral/produced.ts";
import type { AttachmentFinder } from "./relay/verbatim-attachments.ts";
import type { Repair } from "./repairs/repairs.ts";
import type { Usage } from "./usage.ts";

/**
 * How the caller gets its answer: as one body, as server-sent events, as a JSON array that grows,
 * as bytes of any kind as they arrive, or as the messages of a session.
 */
export const framings = ["whole", "sse", "array", "bytes", "messages"] as const;
export type Framing = (typeof framings)[number];
export const contentTypes: Record<Framing, string> = {
  whole: "application/json",
  sse: "text/event-stream; charset=utf-8",
  array: "application/json",
  bytes: "application/octet-stream",
  messages: "application/octet-stream",
};

/** A caller's request, checked against its dialect's schema. */
export interface CallerRequest {
  body: JsonObject;
  framing: Framing;
  /** The caller's headers that upstreams of its dialect read. */
  headers?: Readonly<Record<string, string>>;
}

/** A request as it goes to an upstream. */
export interface WireRequest {
  /** Appended to the upstream's base URL, with its query; begins with a slash. */
  path: string;
  headers?: Record<string, string> | undefined;
  body: Buffer;
}

/** The model that a request goes to, and what the request must be shaped for. */
export interface Target {
  /** The upstream's name of the model. */
  model: string;
  traits: ModelTraits;
  /** The longest answer of the model in tokens, if the catalogue states it. */
  outputTokensMax: number | undefined;
  /** Tokens of input and output together, if the catalogue says so. */
  contextWindow?: number | undefined;
  /** Whether the model reasons; undefined if the catalogue does not state it. */
  reasons?: boolean | undefined;
  /** The upstream accepts `stream_options.include_usage` (openai-chat). */
  streamUsage: boolean;
  /** Results of calls have only text (openai-responses). */
  textResults?: boolean;
  /** The field in which the upstream reads the limit of an answer's tokens (openai-chat). */
  tokenLimitField: "max_completion_tokens" | "max_tokens";
}

/** The members with which an answer of openai-responses says that the gateway stores it. */
export interface StorageFields {
  store?: boolean;
  previous_response_id?: string;
  conversation?: { id: string };
}

/** The identity of an answer for its caller, in place of the upstream's. */
export interface AnswerIdentity {
  /** Unique, of a-z and 0-9. Each dialect adds its own prefix. */
  id: string;
  /** The catalogue's id of the model that answers. */
  model: string;
  /** Whole seconds since 1970. */
  createdAt?: number;
  /**
   * Upstreams store nothing. Undefined where the gateway does not either, and the request refers to
   * nothing stored.
   */
  storage?: StorageFields | undefined;
  /**
   * The names of the caller's tools with free text, for an upstream that got them unchanged
   * (custom-calls.ts).
   */
  customNames?: ReadonlySet<string> | undefined;
  /** A whole answer may stop after a call, because the request names the tool (openai-chat). */
  namesTool?: boolean;
}

/** The sequences that the gateway ends an answer at. */
export interface Cut {
  /** At least one; none is empty. */
  sequences: readonly string[];
  /** An estimate of the prompt's tokens. */
  inputTokens: number;
}

/** The parts of a request that are needed to write its answer in the caller's dialect. */
export interface AnswerContext extends AnswerIdentity {
  createdAt: number;
  /** The upstream's name of the model, to which signatures of its reasoning belong. */
  upstreamModel?: string;
  framing: Framing;
  request: NeutralRequest;
  /** The gateway ends the answer at these stop sequences. */
  cut?: Cut | undefined;
  /** The caller's body, for dialects whose answers repeat parts of it. */
  body: JsonObject;
  /** An estimate of the prompt's tokens, for dialects that begin a stream with their count. */
  inputTokens?: number | undefined;
  /** The answer goes on with one that was relayed unchanged. */
  continues?: Continuation | undefined;
}

/** Reads one streamed answer of an upstream. It returns nothing after an error. */
export interface StreamDecoder {
  push(event: SseEvent): AnswerEvent[];
  /**
   * Called when the upstream's stream stops. Closes the open block and finishes, if the answer is
   * complete.
   */
  end(): AnswerEvent[];
  /** The whole answer has arrived, perhaps without its terminator, so `end` would finish it. */
  readonly finished: boolean;
  /**
   * Events that could not be read. If one of them may have carried content, the answer also fails.
   */
  readonly malformedEvents: number;
  /** The upstream's own count so far, if it has sent one. */
  readonly usage: Usage | undefined;
  /**
   * Grows with the content that the caller has already; undefined for a decoder that drops none.
   */
  readonly repeatedParts?: number;
}

/**
 * Writes one streamed answer for a caller. `finish` also writes the terminator, if the dialect has
 * one.
 */
export interface StreamEncoder {
  /** `usage` is the upstream's count so far, for dialects that begin with it. */
  push(event: ContentEvent, usage?: Usage): string;
}

/**
 * Turns an upstream's stream into a caller's, verbatim or translated. It holds back everything
 * before the first content.
 */
export interface StreamRelay {
  /** Appends the caller's bytes for this event to `out`. */
  push(event: SseEvent, out: Buffer[]): void;
  /** Ends a finished answer with the dialect's terminator, whether or not the upstream sent one. */
  end(out: Buffer[]): void;
  /** Content was seen, so the caller gets all bytes from here on. */
  readonly committed: boolean;
  /** The whole answer has arrived, perhaps without its terminator. */
  readonly finished: boolean;
  /**
   * `finished`, and no content followed the finish. Some servers put a finish reason on every
   * chunk, so that only the end of the stream ends the answer.
   * https://github.com/BerriAI/litellm/issues/2195
   */
  readonly settled: boolean;
  /** No further event is expected. */
  readonly complete: boolean;
  /** `end` was called, or the upstream's own terminator was relayed. */
  readonly ended: boolean;
  /** The upstream's count, with what it has produced since; undefined if it has counted nothing. */
  readonly usage: Usage | undefined;
  readonly produced: Produced;
  /** The delivered part of an answer of plain text, if it was relayed unchanged. */
  readonly relayedText?: RelayedText | undefined;
  readonly error: UpstreamError | undefined;
  readonly malformedEvents: number;
}

/** The result of reading an upstream's whole answer. */
export type WholeAnswer =
  /**
   * `finish` is absent for what does not end by a model's decision, and for an unknown reason.
   * `produced` are estimates in place of a usage that the upstream did not report.
   */
  | {
      kind: "answer";
      body: Buffer;
      usage: Usage | undefined;
      finish?: Finish | undefined;
      produced?: ProducedCounts | undefined;
    }
  | { kind: "error"; error: UpstreamError }
  | { kind: "malformed" };

/** Relays requests and answers between a caller and an upstream of the same dialect. */
export interface Verbatim {
  /** The caller's bytes for the upstream. Undefined if they do not match the dialect's schema. */
  request(bytes: Buffer, framing: Framing, target: Target): WireRequest | undefined;
  /** Finds the addresses of attachments in the caller's bytes. */
  attachmentFinder: AttachmentFinder;
  /** The repairs of the caller's bytes that this dialect has; every other byte stays. */
  repairs: Partial<Record<Repair["kind"], (bytes: Buffer) => Buffer>>;
  stream(bytes: Buffer, framing: Framing, identity: AnswerIdentity): StreamRelay;
  answer(bytes: Buffer, identity: AnswerIdentity): WholeAnswer;
}

export interface Codec {
  /** Throws Refusal, naming the field, for a field that the neutral form can't express. */
  decodeRequest(request: CallerRequest): NeutralRequest;
  /** Throws Refusal, naming the caller's field, for a field that this dialect can't express. */
  encodeRequest(request: NeutralRequest, framing: Framing, target: Target): WireRequest;
  streamDecoder(): StreamDecoder;
  streamEncoder(context: AnswerContext): StreamEncoder;
  /** The events of a whole answer; a single `error` event if the body is an error or no answer. */
  decodeAnswer(body: JsonObject): AnswerEvent[];
  /** The whole answer as JSON text. */
  encodeAnswer(answer: Answer, context: AnswerContext): string;
  /** Reads an error body, or the error in a stream. It is tolerant, because servers differ. */
  upstreamErrorOf(body: unknown): UpstreamError;
  tokenCount?: TokenCount;
  verbatim: Verbatim;
}

/** Counting a prompt's tokens, in dialects with an endpoint for it. */
export interface TokenCount {
  /** The conversation to count, as the body of a request for an answer to it. */
  conversationOf(body: JsonObject): JsonObject;
  /** The prefix of the conversation's field names, if it is nested in a field of the body. */
  prefixOf?(body: JsonObject): string;
  /** The request that makes an upstream count such a body. */
  requestOf(conversation: JsonObject, target: Target): WireRequest;
  /** Undefined if the upstream's answer has no count. */
  countIn(answer: JsonObject): number | undefined;
  answerOf(tokens: number): string;
}
