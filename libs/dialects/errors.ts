/**
 * The one table of errors: a code of ours → HTTP status, and each dialect's type and body.
 * OpenAI: https://platform.openai.com/docs/guides/error-codes
 * Anthropic: https://docs.anthropic.com/en/api/errors
 * Google: https://cloud.google.com/apis/design/errors
 */
import type { ConversationDialect } from "./dialect.ts";

interface ErrorRow {
  status: number;
  /** Where that dialect has one of its own. */
  anthropicStatus: number;
  openaiType: string;
  openaiCode: string | null;
  anthropicType: string;
  googleStatus: string;
}

const row = (
  status: number,
  openaiType: string,
  openaiCode: string | null,
  anthropicType: string,
  googleStatus: string,
  anthropicStatus = status,
): ErrorRow => ({
  status,
  anthropicStatus,
  openaiType,
  openaiCode,
  anthropicType,
  googleStatus,
});

const table = {
  invalid_request: row(400, "invalid_request_error", null, "invalid_request_error", "INVALID_ARGUMENT"),
  context_too_long: row(
    400,
    "invalid_request_error",
    "context_length_exceeded",
    "invalid_request_error",
    "INVALID_ARGUMENT",
  ),
  content_filter: row(400, "invalid_request_error", "content_filter", "invalid_request_error", "INVALID_ARGUMENT"),
  invalid_key: row(401, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
  path_not_found: row(404, "invalid_request_error", "unknown_url", "not_found_error", "NOT_FOUND"),
  model_not_found: row(404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND"),
  method_not_allowed: row(
    405,
    "invalid_request_error",
    "method_not_allowed",
    "invalid_request_error",
    "INVALID_ARGUMENT",
  ),
  request_timeout: row(408, "invalid_request_error", "request_timeout", "timeout_error", "DEADLINE_EXCEEDED"),
  body_too_large: row(413, "invalid_request_error", "request_too_large", "request_too_large", "INVALID_ARGUMENT"),
  unsupported_media_type: row(
    415,
    "invalid_request_error",
    "unsupported_media_type",
    "invalid_request_error",
    "INVALID_ARGUMENT",
  ),
  unprocessable: row(422, "invalid_request_error", null, "invalid_request_error", "INVALID_ARGUMENT"),
  upgrade_required: row(
    426,
    "invalid_request_error",
    "upgrade_required",
    "invalid_request_error",
    "FAILED_PRECONDITION",
  ),
  headers_too_large: row(431, "invalid_request_error", "headers_too_large", "request_too_large", "INVALID_ARGUMENT"),
  rate_limited: row(429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
  budget_exhausted: row(429, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED", 402),
  internal: row(500, "server_error", "internal_error", "api_error", "INTERNAL"),
  upstream_failed: row(502, "server_error", "upstream_error", "api_error", "INTERNAL"),
  worker_lost: row(502, "server_error", "worker_lost", "api_error", "INTERNAL"),
  unavailable: row(503, "server_error", "service_unavailable", "overloaded_error", "UNAVAILABLE", 529),
  overloaded: row(503, "server_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE", 529),
  upstream_timeout: row(504, "server_error", "upstream_timeout", "timeout_error", "DEADLINE_EXCEEDED"),
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
  /** Set when the operator's account or configuration at the upstream is at fault, not the request. It selects the cooldown and is never shown to a caller. */
  operatorFault?: OperatorFault;
  /** The upstream's own id of the request that failed: printable ASCII. */
  upstreamRequestId?: string;
}

/**
 * `credential`: the upstream refused the credential. `quota`: the account has no money or quota left, so a retry with the same credential is useless.
 * `model`: the upstream does not serve the target's model. `unclear`: a 403 or 404 that gives no reason, so the request may be at fault as well.
 */
export type OperatorFault = "credential" | "quota" | "model" | "unclear";

/** What an upstream says went wrong, in an error answer or inside of an answer with a good status. */
export interface UpstreamError {
  message: string;
  code?: string | undefined;
  type?: string | undefined;
  /** The field at fault. */
  param?: string | undefined;
  status?: number | undefined;
  /** When to come back, where the body says so. */
  retryAfterSeconds?: number | undefined;
  /**
   * What the upstream's names and words stand for, where they say more than the status: `rate_limited` also where the status blames the request,
   * `over_rate_limit` where this request alone is more than a rate limit admits,
   * `invalid_request` where the status blames the gateway. `markup` is a page in HTML or XML, which comes from something in front of the upstream's API.
   */
  means?:
    | "context_too_long"
    | "content_filter"
    | "rate_limited"
    | "invalid_request"
    | "over_rate_limit"
    | "markup"
    | OperatorFault
    | undefined;
  /** The text that `means` was read from, in lower case, where the upstream may have quoted it from its caller. */
  evidence?: string | undefined;
}

export const isErrorCode = (code: unknown): code is ErrorCode => typeof code === "string" && Object.hasOwn(table, code);

/** The HTTP status of a dialect's error answer. */
export const statusOf = (code: ErrorCode, dialect: ConversationDialect): number =>
  dialect === "anthropic-messages" ? table[code].anthropicStatus : table[code].status;

/** The dialect's error body, complete, as JSON text. `requestId` is the one its header says. */
export function errorBodyOf(dialect: ConversationDialect, failure: Failure, requestId: string): string {
  const { status, openaiType, openaiCode, anthropicType, googleStatus } = table[failure.code];
  switch (dialect) {
    case "openai-chat":
    case "openai-responses":
      return JSON.stringify({
        error: {
          message: failure.message,
          type: openaiType,
          param: failure.param ?? null,
          code: failure.upstreamCode ?? openaiCode,
        },
      });
    case "anthropic-messages":
      return JSON.stringify({
        type: "error",
        error: {
          type: anthropicType,
          message: anthropicMessageOf(failure),
          ...(failure.upstreamCode && { details: { error_code: failure.upstreamCode } }),
        },
        request_id: requestId,
      });
    case "gemini":
      return JSON.stringify({
        error: { code: status, message: failure.message, status: googleStatus, ...googleDetailsOf(failure) },
      });
    default:
      return dialect satisfies never;
  }
}

/** What is known of an answer whose stream fails. */
export interface FailedAnswer {
  requestId: string;
  /** The answer's id, as the caller has seen it. */
  answerId: string | undefined;
  model: string;
  /** Events that the caller has of it. */
  events: number;
}

/** What ends a stream in failure, in server-sent events; no success terminator may follow it. */
export function errorEventOf(
  dialect: ConversationDialect,
  failure: Failure,
  { requestId, answerId, model, events }: FailedAnswer,
): string {
  switch (dialect) {
    case "openai-chat":
    case "gemini":
      return `data: ${errorBodyOf(dialect, failure, requestId)}\n\n`;
    case "anthropic-messages":
      return `event: error\ndata: ${errorBodyOf(dialect, failure, requestId)}\n\n`;
    case "openai-responses": {
      // Some clients read the one event and some the other, and of the first some its fields and some its `error`:
      // https://platform.openai.com/docs/api-reference/responses-streaming
      const { openaiCode, openaiType } = table[failure.code];
      const code = failure.upstreamCode ?? openaiCode ?? openaiType;
      const { message, param = null } = failure;
      const error = {
        type: "error",
        sequence_number: events,
        code,
        message,
        param,
        error: { type: openaiType, code, message, param },
      };
      const response = {
        id: answerId ?? `resp_${requestId.replace(/^[a-z]+_/, "")}`,
        object: "response",
        created_at: Math.floor(Date.now() / 1_000),
        status: "failed",
        error: { code, message },
        incomplete_details: null,
        model,
        output: [],
        store: false,
      };
      return `event: error\ndata: ${JSON.stringify(error)}\n\nevent: response.failed\ndata: ${JSON.stringify({ type: "response.failed", sequence_number: events + 1, response })}\n\n`;
    }
    default:
      return dialect satisfies never;
  }
}

/** One command-line client looks for these words to shorten its conversation. */
function anthropicMessageOf({ code, message, param }: Failure): string {
  if (code === "context_too_long" && !message.startsWith("prompt is too long")) return `prompt is too long: ${message}`;
  return param === undefined || message.includes(param) ? message : `${param}: ${message}`;
}

/** Clients know by `PerDay` in a quota's id that there is no use in trying again, whatever the budget's period. */
const exhaustedBudget = { quotaMetric: "sluice/budget", quotaId: "BudgetPerDay" };

/** https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto */
function googleDetailsOf({ code, message, param, retryAfterSeconds }: Failure): object {
  const details = [
    ...(param === undefined
      ? []
      : [
          {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            fieldViolations: [{ field: param, description: message }],
          },
        ]),
    ...(retryAfterSeconds === undefined
      ? []
      : [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${retryAfterSeconds}s` }]),
    ...(code === "budget_exhausted"
      ? [{ "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [exhaustedBudget] }]
      : []),
  ];
  return details.length === 0 ? {} : { details };
}

/**
 * Sorts an upstream's error answer. What the caller did wrong is passed on with the upstream's reason; the rest is ours to answer for, in our
 * own words: an upstream's may name its address, its accounts or the credential. `isQuoted` says whether a text stands in the caller's request: words that the
 * caller wrote prove nothing about the operator's account.
 */
export function failureOf(
  status: number,
  error: UpstreamError,
  isQuoted: (text: string) => boolean = () => false,
): Failure {
  const { message, code, param, evidence } = error;
  const affectsOthers =
    error.means === "credential" ||
    error.means === "quota" ||
    error.means === "model" ||
    error.means === "rate_limited";
  const means = affectsOthers && evidence !== undefined && isQuoted(evidence) ? undefined : error.means;
  const reason = { message, ...(code !== undefined && { upstreamCode: code }), ...(param !== undefined && { param }) };
  switch (means) {
    case "context_too_long":
      return { ...reason, code: "context_too_long", upstreamCode: "context_length_exceeded" };
    case "content_filter":
    case "invalid_request":
      return { ...reason, code: means };
    case "credential":
    case "quota":
    case "model":
      return operatorFailure(means);
    case "unclear":
      return status < 500 ? operatorFailure(means) : { ...failed, operatorFault: means };
    case "rate_limited":
      return rateLimited;
    case "over_rate_limit":
      return { ...rateLimited, operatorFault: "unclear" };
    case "markup":
      if (status === 413)
        return { code: "body_too_large", message: "The request is larger than the upstream of this model takes." };
      if (status === 400 || status === 403 || status === 422) return failed;
  }
  switch (status) {
    case 400:
      return { ...reason, code: "invalid_request" };
    case 401:
      return operatorFailure("credential");
    case 402:
      return operatorFailure("quota");
    case 403:
    case 404:
      return operatorFailure("unclear");
    case 413:
      return { ...reason, code: "body_too_large" };
    case 422:
      return { ...reason, code: "unprocessable" };
    case 429:
      return rateLimited;
    case 408:
    case 504:
      return { code: "upstream_timeout", message: "The upstream of this model did not answer in time." };
    case 503:
    case 529:
      return { code: "overloaded", message: "The upstream of this model is overloaded; try again in a moment." };
    default:
      return failed;
  }
}

const failed: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model failed; try again in a moment.",
};
const rateLimited: Failure = {
  code: "rate_limited",
  message: "The upstream of this model takes no more requests at the moment; try again later.",
};
const operatorFailure = (operatorFault: OperatorFault): Failure => ({
  code: "upstream_failed",
  message: "The upstream of this model refused the gateway; its operator has been told.",
  operatorFault,
});

/** An error in the gateway's own code, as callers see it. The log has the reason. */
export const internalFailure: Failure = { code: "internal", message: "The gateway failed to process this request." };
