/** What a dialect of conversations is to the gateway: it reads and writes requests and answers, and relays its own kind untouched. All of it is pure and synchronous. */
import type { UpstreamError } from "./errors.ts";
import type { ModelTraits } from "./model-traits.ts";
import type { Answer, AnswerEvent, NeutralRequest } from "./neutral.ts";
import type { Produced } from "./produced.ts";
import type { SseEvent } from "./sse.ts";
import type { Usage } from "./usage.ts";
import type { ReplaceAddress } from "./verbatim-attachments.ts";

/** How the caller gets its answer: in one piece, as server-sent events, or as a JSON array that grows. */
export const framings = ["whole", "sse", "array"] as const;
export type Framing = (typeof framings)[number];
export const contentTypes: Record<Framing, string> = {
  whole: "application/json",
  sse: "text/event-stream; charset=utf-8",
  array: "application/json",
};

/** A caller's request, checked against its dialect's schema. */
export interface CallerRequest {
  body: Record<string, unknown>;
  framing: Framing;
  /** Of the caller's headers those that its dialect's upstreams read. */
  headers?: Readonly<Record<string, string>>;
}

/** A request as it goes to an upstream. */
export interface WireRequest {
  /** Behind the upstream's base address, with its query; begins with a slash. */
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

/** The model of a request at its upstream, and what of it the request must be shaped for. */
export interface Target {
  /** The upstream's name of the model. */
  model: string;
  traits: ModelTraits;
  /** How many tokens it gives out at most, if the catalogue says so. */
  outputTokensMax: number | undefined;
  /** Whether the model reasons; undefined where the catalogue does not say. */
  reasons?: boolean | undefined;
  /** The upstream takes `stream_options.include_usage` (openai-chat). */
  streamUsage: boolean;
  /** Where the upstream takes the bound on an answer's tokens (openai-chat). */
  tokenLimitField: "max_completion_tokens" | "max_tokens";
}

/** What an answer needs to know of its request, to be written in the caller's dialect. */
export interface AnswerContext {
  /** Unique, of a-z and 0-9; each dialect puts its own prefix before it. */
  id: string;
  /** The catalogue's id of the model that answers. */
  model: string;
  /** Whole seconds since 1970. */
  createdAt: number;
  framing: Framing;
  request: NeutralRequest;
  /** The caller's own body, for dialects whose answers echo it. */
  body: Record<string, unknown>;
}

/** Reads an upstream's stream, one per answer. After an error, nothing more. */
export interface StreamDecoder {
  push(event: SseEvent): AnswerEvent[];
  /** What is left when the upstream's stream stops: closes what is open and finishes, if the answer is complete. */
  end(): AnswerEvent[];
  /** All of the answer is there but, perhaps, its terminator: `end` would finish it. */
  readonly finished: boolean;
  /** Events that could not be read. One that may have carried content is an error of the answer as well. */
  readonly malformedEvents: number;
  /** The upstream's own count so far, where it has told one. */
  readonly usage: Usage | undefined;
}

/** Writes a caller's stream, one per answer; `finish` brings the terminator, if the dialect has one. It is never given an error. */
export interface StreamEncoder {
  push(event: Exclude<AnswerEvent, { kind: "error" }>): string;
}

/** An upstream's stream on its way to a caller: verbatim, or translated. Holds back what comes before the first content. */
export interface StreamRelay {
  /** Appends what the caller gets for this event. */
  push(event: SseEvent, out: Buffer[]): void;
  /** Ends a finished answer as its dialect does, whether or not the upstream sent a terminator. */
  end(out: Buffer[]): void;
  /** Content was seen: bytes belong to the caller from here on. */
  readonly committed: boolean;
  /** All of the answer is there but, perhaps, its terminator. */
  readonly finished: boolean;
  /**
   * `finished`, and no content came behind the finish. Some servers put a finish reason on every chunk: with them only the end of the stream ends the answer.
   * https://github.com/BerriAI/litellm/issues/2195
   */
  readonly settled: boolean;
  /** Nothing more is to be waited for. */
  readonly complete: boolean;
  /** `end` was called, or the upstream's own terminator passed. */
  readonly ended: boolean;
  /** What the upstream has counted, and what it has produced since; undefined where it has counted nothing. */
  readonly usage: Usage | undefined;
  readonly produced: Produced;
  readonly error: UpstreamError | undefined;
  /** The id by which the caller knows the answer, once it is known. */
  readonly answerId: string | undefined;
  readonly malformedEvents: number;
}

/** A whole answer of an upstream, as far as it can be relayed. */
export type WholeAnswer =
  | { kind: "answer"; body: Buffer; usage: Usage | undefined }
  | { kind: "error"; error: UpstreamError }
  | { kind: "malformed" };

/** The upstream's side of a dialect's untouched relay. */
export interface Verbatim {
  /** The caller's bytes for an upstream of the same dialect. Undefined when they are not what the dialect's schema admits. */
  request(bytes: Buffer, framing: Framing, target: Target): WireRequest | undefined;
  /** The caller's bytes for an upstream that is to compact the conversation, in dialects that have an endpoint for it; likewise. */
  compaction?(bytes: Buffer, model: string): WireRequest | undefined;
  /** The caller's bytes with the addresses in them replaced, and every other byte as it was. Throws Refusal, naming the field, where a source is given twice. */
  withAddresses(bytes: Buffer, replace: ReplaceAddress): Buffer;
  stream(bytes: Buffer, framing: Framing, model: string): StreamRelay;
  answer(bytes: Buffer, model: string): WholeAnswer;
}

export interface Codec {
  /** Throws Refusal, naming the field, for what the neutral form has no place for. */
  decodeRequest(request: CallerRequest): NeutralRequest;
  /** Throws Refusal, naming the caller's field, for what this dialect has no place for. */
  encodeRequest(request: NeutralRequest, framing: Framing, target: Target): WireRequest;
  streamDecoder(): StreamDecoder;
  streamEncoder(context: AnswerContext): StreamEncoder;
  /** The events of a whole answer; a single `error` when it is one, or no answer at all. */
  decodeAnswer(body: Record<string, unknown>): AnswerEvent[];
  /** The whole answer as JSON text. */
  encodeAnswer(answer: Answer, context: AnswerContext): string;
  /** What an error body, or the error in a stream, says; tolerant, for servers differ. */
  upstreamErrorOf(body: unknown): UpstreamError;
  /** The id that its answers bear, in dialects that name it again to report a failure. */
  answerIdOf?(context: AnswerContext): string;
  tokenCount?: TokenCount;
  verbatim: Verbatim;
}

/** Counting a prompt's tokens, in dialects that have an endpoint for it. */
export interface TokenCount {
  /** The conversation that a caller wants counted, as the body of a request for an answer to it. */
  conversationOf(body: Record<string, unknown>): Record<string, unknown>;
  /** What the names of the conversation's fields begin with, where it stands within a field of the body. */
  prefixOf?(body: Record<string, unknown>): string;
  /** The request that has an upstream count such a body. */
  requestOf(conversation: Record<string, unknown>, target: Target): WireRequest;
  /** Undefined when an upstream's answer says none. */
  countIn(answer: Record<string, unknown>): number | undefined;
  answerOf(tokens: number): string;
}
