/** What a dialect is to the simulator: it reads a request of its wire format and gives the whole answer, of which `play.ts` decides when and how much is sent. */
import type { Settings } from "../settings.ts";

interface SimulatedRequest {
  method: string;
  /** Percent-decoded, without the query. */
  path: string;
  /** Parsed JSON; undefined for a request without a body. */
  body: unknown;
  /** Hex SHA-256 of the body: ids and times derive from it, so that the same request gets the same bytes. */
  digest: string;
  settings: Settings;
}

/** An answer that is streamed. All texts are whole events, with their last blank line. */
export interface Script {
  kind: "events";
  /** What stands before the first token and carries no content. */
  opening: string;
  /** How many events carry a token. */
  length: number;
  /** The event of a token; the same at each call. */
  eventAt(index: number): string;
  /** What follows the last token, except for the terminator. */
  closing: string;
  terminator: string;
  /** The event of an error of the upstream in mid-stream. */
  errorEvent(message: string): string;
}

/** An answer in one piece; `tokens` is what it counts for at a rate. */
export interface Whole {
  kind: "whole";
  body: string;
  tokens: number;
}

/** A request that is not answered; `message` and `param` are for the caller. */
export interface Refused {
  kind: "refused";
  status: number;
  message: string;
  param?: string;
}

export interface Dialect {
  name: string;
  serves(method: string, path: string): boolean;
  /** The model that the request names, if it does. */
  modelOf(request: { path: string; body: unknown }): string | undefined;
  answer(request: SimulatedRequest): Script | Whole | Refused;
  /** The body of an error, in JSON. */
  errorBody(error: { status: number; message: string; param?: string | undefined }): string;
}

/** A field of a JSON object, if it is a string. */
export function stringOf(body: unknown, name: string): string | undefined {
  const value = typeof body === "object" && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined;
  return typeof value === "string" ? value : undefined;
}

/** A time in s since 1970 that is always the same for the same request. */
export const createdOf = (digest: string) => 1_760_000_000 + (Number.parseInt(digest.slice(0, 8), 16) % 10_000_000);
