/**
 * The common part of the profiles of OpenAI's two dialects: errors, rate-limit headers and the
 * model list. https://platform.openai.com/docs/guides/error-codes,
 * https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers,
 * https://platform.openai.com/docs/api-reference/models
 */
import { type ErrorCode, type Failure, statuses } from "../errors.ts";
import type { ListedModel, Profile } from "../profile.ts";

const request = "invalid_request_error";
const server = "server_error";

/** The type and the code of each error. */
const errors: Record<ErrorCode, readonly [type: string, code: string | null]> = {
  invalid_request: [request, null],
  context_too_long: [request, "context_length_exceeded"],
  content_filter: [request, "content_filter"],
  missing_key: [request, null],
  invalid_key: [request, "invalid_api_key"],
  invalid_token: [request, "invalid_api_key"],
  origin_not_allowed: [request, "origin_not_allowed"],
  address_not_allowed: [request, "address_not_allowed"],
  path_not_found: [request, "unknown_url"],
  not_found: [request, null],
  model_not_found: [request, "model_not_found"],
  method_not_allowed: [request, "method_not_allowed"],
  request_timeout: [request, "request_timeout"],
  body_too_large: [request, "request_too_large"],
  unsupported_media_type: [request, "unsupported_media_type"],
  unprocessable: [request, null],
  upgrade_required: [request, "upgrade_required"],
  headers_too_large: [request, "headers_too_large"],
  rate_limited: ["rate_limit_error", "rate_limit_exceeded"],
  budget_exhausted: ["insufficient_quota", "insufficient_quota"],
  internal: [server, "internal_error"],
  upstream_failed: [server, "upstream_error"],
  worker_lost: [server, "worker_lost"],
  unavailable: [server, "service_unavailable"],
  stopped: [server, "stopped_by_operator"],
  overloaded: [server, "server_is_overloaded"],
  upstream_timeout: [server, "upstream_timeout"],
};

/** The fields of an error. */
export function openaiErrorOf({ code, message, param, upstreamCode }: Failure) {
  const [type, ownCode] = errors[code];
  return { message, type, param: param ?? null, code: upstreamCode ?? ownCode };
}

const modelBodyOf = ({ id, created, ownedBy, contextWindow, outputTokensMax, offer }: ListedModel): object => ({
  id,
  object: "model",
  created,
  owned_by: ownedBy,
  context_window: contextWindow,
  max_output_tokens: outputTokensMax,
  ...offer,
});

export const openaiProfile = {
  authentication: "bearer",
  probePath: "/models",
  baseUrlAdvice: "Set the client's base URL to this gateway's address with one /v1 at the end, and no slash behind it.",
  callerHeaders: [],
  framingOf: (body) => (body.stream === true ? "sse" : "whole"),
  embeddings: "openai",
  statusOf: (code) => statuses[code],
  errorBodyOf: (failure) => JSON.stringify({ error: openaiErrorOf(failure) }),
  breaksAfterError: false,
  // Computed names would cost three times as much, in each answer.
  limitHeadersOf: ({ what, limit, remaining, resetSeconds }): Record<string, string> =>
    what === "requests"
      ? {
          "x-ratelimit-limit-requests": String(limit),
          "x-ratelimit-remaining-requests": String(remaining),
          "x-ratelimit-reset-requests": `${resetSeconds}s`,
        }
      : {
          "x-ratelimit-limit-tokens": String(limit),
          "x-ratelimit-remaining-tokens": String(remaining),
          "x-ratelimit-reset-tokens": `${resetSeconds}s`,
        },
  modelBodyOf,
  modelListOf: (models) => ({ object: "list", data: models.map(modelBodyOf) }),
} satisfies Partial<Profile>;
