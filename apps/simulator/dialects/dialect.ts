/**
 * The interface of a dialect: it reads a request of its wire format and makes the whole answer;
 * `play.ts` decides when and how much of it is sent.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { PromptCache } from "../prompt-cache.ts";
import type { StatedLimit } from "../rate-limits.ts";
import type { Settings } from "../settings.ts";

export interface SimulatedRequest {
  method: string;
  /** Percent-decoded, without the query. */
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  /** Parsed JSON, or the fields of a form; undefined for a request without a body. */
  body: unknown;
  /**
   * Hex SHA-256 of the body. Ids and times derive from it, so that the same request gets the same
   * bytes.
   */
  digest: string;
  settings: Settings;
  /** That of its credential and model, with the setting `prompt-cache`. */
  cache: PromptCache | undefined;
}

/** A streamed answer. All texts are whole events, including their empty lines. */
export interface Script {
  kind: "events";
  /** Server-sent events by default. */
  contentType?: string;
  /** `latin1` for an answer of bytes, in which each character of a text stands for one byte. */
  encoding?: "latin1";
  /** Sent before the first token; without content. */
  opening: string;
  /** In tokens. */
  length: number;
  /**
   * For each token its event, preceded by events that must come before it; empty if the token has
   * none. Returns what is sent after the last token, without the terminator.
   */
  events: Iterator<string, string>;
  /** Read after the last event. */
  terminator: string;
  /**
   * An error after the events so far, with the end of the stream. `opened`: the opening was sent.
   */
  errorEvent(message: string, at: { opened: boolean }): string;
}

/** An answer in one body; `tokens` is its length for the pace. */
export interface Whole {
  kind: "whole";
  /** JSON by default. */
  contentType?: string;
  body: string;
  tokens: number;
}

/** An error for the caller. Without `code`, or with null, the code is that of its status. */
export interface Fault {
  status: number;
  message: string;
  param?: string;
  code?: string | null;
}

/** The fault with fields that only some dialects have in the body. */
export interface SentFault extends Fault {
  requestId?: string;
  /** As in the header Retry-After. */
  retryAfter?: string;
  /** Google's name of the cause. */
  reason?: string;
}

/** A rejected request. */
export class Refused extends Error {
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.message);
    this.fault = fault;
  }
}

/** Throws Refused: with the status 400, unless another is given. */
export function refuse(message: string, param?: string, more: Partial<Fault> = {}): never {
  throw new Refused({ status: 400, message, ...(param !== undefined && { param }), ...more });
}

/** `body` is what becomes JSON. */
export const wholeOf = (body: object, tokens = 0): Whole => ({ kind: "whole", body: JSON.stringify(body), tokens });

export interface Dialect {
  name: string;
  serves(method: string, path: string): boolean;
  /** The model that the request names, if any. */
  modelOf(request: { path: string; body: unknown }): string | undefined;
  /** Throws Refused. */
  answer(request: SimulatedRequest): Script | Whole;
  /** The body of an error, in JSON. */
  errorBody(fault: SentFault): string;
  /** The credential, in dialects that do not only use a bearer token. */
  credentialOf?(request: Pick<SimulatedRequest, "query" | "headers">): string | undefined;
  /** The fault of a wrong credential of this kind, or of none at all; a 401 by default. */
  credentialFault?(credential: string | undefined): SentFault;
  /** The header with the request's id; `x-request-id` by default. */
  requestIdHeader?: string;
  /** The headers that state rate limits; those of OpenAI by default. `epoch` is epoch ms. */
  limitHeaders?(limits: readonly StatedLimit[], epoch: number): OutgoingHttpHeaders;
  /** The time to retry is in the error's body instead of a header. */
  retryInBody?: boolean;
}

/** A field of a JSON object, if it is a string. */
export function stringOf(body: unknown, name: string): string | undefined {
  const value =
    typeof body === "object" && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined;
  return typeof value === "string" ? value : undefined;
}

/** A header that occurs once. */
export const headerIn = (value: string | string[] | undefined) => (typeof value === "string" ? value : undefined);

/** A time in seconds since 1970 that is the same for the same request. */
export const createdOf = (digest: string) => 1_760_000_000 + (Number.parseInt(digest.slice(0, 8), 16) % 10_000_000);
