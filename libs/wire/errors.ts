/**
 * The one table of errors: a code of ours → HTTP status, and each dialect's type and body.
 * OpenAI: https://platform.openai.com/docs/guides/error-codes
 */
import type { CallerDialect } from "./dialect.ts";

interface ErrorRow {
  status: number;
  openaiType: string;
  openaiCode: string | null;
}

const row = (status: number, openaiType: string, openaiCode: string | null): ErrorRow => ({ status, openaiType, openaiCode });

const table = {
  invalid_request: row(400, "invalid_request_error", null),
  context_too_long: row(400, "invalid_request_error", "context_length_exceeded"),
  content_filter: row(400, "invalid_request_error", "content_filter"),
  invalid_key: row(401, "invalid_request_error", "invalid_api_key"),
  path_not_found: row(404, "invalid_request_error", "unknown_url"),
  model_not_found: row(404, "invalid_request_error", "model_not_found"),
  method_not_allowed: row(405, "invalid_request_error", "method_not_allowed"),
  request_timeout: row(408, "invalid_request_error", "request_timeout"),
  body_too_large: row(413, "invalid_request_error", "request_too_large"),
  unsupported_media_type: row(415, "invalid_request_error", "unsupported_media_type"),
  unprocessable: row(422, "invalid_request_error", null),
  headers_too_large: row(431, "invalid_request_error", "headers_too_large"),
  rate_limited: row(429, "rate_limit_error", "rate_limit_exceeded"),
  internal: row(500, "server_error", "internal_error"),
  upstream_failed: row(502, "server_error", "upstream_error"),
  worker_lost: row(502, "server_error", "worker_lost"),
  unavailable: row(503, "server_error", "service_unavailable"),
  overloaded: row(503, "server_error", "server_is_overloaded"),
  upstream_timeout: row(504, "server_error", "upstream_timeout"),
  caller_too_slow: row(408, "server_error", "caller_too_slow"),
} satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof table;

/** Why a request was not answered, in our words. The message is for the caller: no secret, no upstream's address. */
export interface Failure {
  code: ErrorCode;
  message: string;
  /** The field at fault, as a path such as `messages[0].content`. */
  param?: string;
  /** When to come back; whole seconds, at least 1. */
  retryAfterSeconds?: number;
  /** An upstream's own code, kept for the caller where it is the caller's fault. */
  upstreamCode?: string;
}

export const isErrorCode = (code: unknown): code is ErrorCode => typeof code === "string" && Object.hasOwn(table, code);
export const statusOf = (code: ErrorCode): number => table[code].status;

/** The dialect's error body, complete, as JSON text. */
export function errorBodyOf(dialect: CallerDialect, failure: Failure): string {
  const { openaiType, openaiCode } = table[failure.code];
  switch (dialect) {
    case "openai-chat":
      return JSON.stringify({
        error: { message: failure.message, type: openaiType, param: failure.param ?? null, code: failure.upstreamCode ?? openaiCode },
      });
    default:
      return dialect satisfies never;
  }
}

/** The dialect's in-stream error event; no success terminator may follow it. */
export function errorEventOf(dialect: CallerDialect, failure: Failure): string {
  switch (dialect) {
    case "openai-chat":
      return `data: ${errorBodyOf(dialect, failure)}\n\n`;
    default:
      return dialect satisfies never;
  }
}
