/** What a dialect is to the simulator: it reads a request of its wire format and gives the whole answer, of which `play.ts` decides when and how much is sent. */
import type { IncomingHttpHeaders } from "node:http";
import type { Settings } from "../settings.ts";

export interface SimulatedRequest {
  method: string;
  /** Percent-decoded, without the query. */
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  /** Parsed JSON, or the fields of a form; undefined for a request without a body. */
  body: unknown;
  /** Hex SHA-256 of the body: ids and times derive from it, so that the same request gets the same bytes. */
  digest: string;
  settings: Settings;
}

/** An answer that is streamed. All texts are whole events, with their last blank line. */
export interface Script {
  kind: "events";
  /** Of server-sent events, unless given. */
  contentType?: string;
  /** What stands before the first token and carries no content. */
  opening: string;
  /** In tokens. */
  length: number;
  /** The event of a token, the last of these if others must come before it; empty if the token shows no event. The same at each call. */
  eventAt(index: number): string;
  /** What follows the last token, except for the terminator. */
  closing: string;
  terminator: string;
  /** An error of the upstream after `sent` tokens, and what ends the stream then. `opened` says whether the opening was sent. */
  errorEvent(message: string, at: { sent: number; opened: boolean }): string;
}

/** An answer in one piece; `tokens` is what it counts for at a rate. */
export interface Whole {
  kind: "whole";
  body: string;
  tokens: number;
}

/** What an error says to the caller; without a `code` of its own, or null for none, it has that of its status. */
export interface Fault {
  status: number;
  message: string;
  param?: string;
  code?: string | null;
}

/** What the server adds to a fault, for dialects that have a place for it in the body. */
export interface SentFault extends Fault {
  requestId?: string;
  /** As in the header Retry-After. */
  retryAfter?: string;
}

/** A request that is not answered. */
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
  /** The model that the request names, if it does. */
  modelOf(request: { path: string; body: unknown }): string | undefined;
  /** Throws Refused. */
  answer(request: SimulatedRequest): Script | Whole;
  /** The body of an error, in JSON. */
  errorBody(fault: SentFault): string;
  /** The credential, where it may come in another way than as a bearer's. */
  credentialOf?(request: Pick<SimulatedRequest, "query" | "headers">): string | undefined;
  /** The header of the request's id; `x-request-id` unless given. */
  requestIdHeader?: string;
  /** When to try again is said in the body of an error, and in no header. */
  retryInBody?: boolean;
}

/** A field of a JSON object, if it is a string. */
export function stringOf(body: unknown, name: string): string | undefined {
  const value =
    typeof body === "object" && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined;
  return typeof value === "string" ? value : undefined;
}

/** A header that is there once. */
export const headerIn = (value: string | string[] | undefined): string | undefined =>
  typeof value === "string" ? value : undefined;

/** A time in s since 1970 that is always the same for the same request. */
export const createdOf = (digest: string) => 1_760_000_000 + (Number.parseInt(digest.slice(0, 8), 16) % 10_000_000);
