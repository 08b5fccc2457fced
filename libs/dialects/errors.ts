/**
 * Failures: their codes, their HTTP statuses, and the classification of upstream errors. Each
 * dialect's profile formats them for its callers.
 */

import { defined } from "#wire/json/parse.ts";

/** The HTTP status of each code; a dialect may have another. */
export const statuses = {
  invalid_request: 400,
  context_too_long: 400,
  content_filter: 400,
  missing_key: 401,
  invalid_key: 401,
  invalid_token: 401,
  origin_not_allowed: 403,
  address_not_allowed: 403,
  path_not_found: 404,
  not_found: 404,
  model_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  body_too_large: 413,
  unsupported_media_type: 415,
  unprocessable: 422,
  upgrade_required: 426,
  headers_too_large: 431,
  rate_limited: 429,
  budget_exhausted: 429,
  internal: 500,
  upstream_failed: 502,
  worker_lost: 502,
  unavailable: 503,
  stopped: 503,
  overloaded: 503,
  upstream_timeout: 504,
} as const;

export type ErrorCode = keyof typeof statuses;

/**
 * Why a request failed. The message is for the caller, so it contains no secrets and no addresses
 * of upstreams.
 */
export interface Failure {
  code: ErrorCode;
  message: string;
  /** The field at fault, as a path such as `messages[0].content`. */
  param?: string;
  /** When to retry: whole seconds, at least 1. */
  retryAfterSeconds?: number;
  /** The upstream's own code, which the caller gets if the request is at fault. */
  upstreamCode?: string;
  /**
   * Set when the operator's account or configuration at the upstream is at fault, not the request.
   * It selects the cooldown and is never shown to a caller.
   */
  operatorFault?: OperatorFault;
  /** The upstream's own id of the request that failed: printable ASCII. */
  upstreamRequestId?: string;
  /**
   * The upstream answered, and its answer cannot be passed on: the caller is charged, and another
   * try would be charged again.
   */
  isPaid?: true;
}

/**
 * `credential`: the upstream rejected the credential. `quota`: the account has no money or quota
 * left, so a retry with the same credential is useless. `model`: the upstream does not serve the
 * target's model. `unclear`: a 403 or 404 without a reason, so the request may be at fault as well.
 */
export type OperatorFault = "credential" | "quota" | "model" | "unclear";

/** An upstream's error, from an error response or from a response with a success status. */
export interface UpstreamError {
  message: string;
  code?: string | undefined;
  type?: string | undefined;
  /** The field at fault. */
  param?: string | undefined;
  status?: number | undefined;
  /** When to retry, if the body states it. */
  retryAfterSeconds?: number | undefined;
  /**
   * The meaning of the upstream's error codes and texts, where they are more precise than the
   * status: `rate_limited` even with a status that blames the request, `over_rate_limit` if this
   * request alone exceeds a rate limit, `invalid_request` with a status that blames the gateway.
   * `markup` is an HTML or XML page, which comes from a proxy in front of the upstream's API.
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
  /**
   * The text that determined `means`, in lower case, where the upstream may have quoted it from its
   * caller.
   */
  evidence?: string | undefined;
}

export const isErrorCode = (code: unknown): code is ErrorCode =>
  typeof code === "string" && Object.hasOwn(statuses, code);

/**
 * Classifies an upstream's error. Errors of the caller keep the upstream's reason. All others get
 * the gateway's own message, because the upstream's may contain its address, its accounts or the
 * credential. `isQuoted` tells whether a text appears in the caller's request: words that the
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
  const reason = { message, ...defined({ upstreamCode: code, param }) };
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
        return { code: "body_too_large", message: "The request is larger than the upstream of this model accepts." };
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
    // A retired model: https://github.com/NVIDIA/NemoClaw/issues/11902
    case 410:
      return operatorFailure("model");
    case 413:
      return { ...reason, code: "body_too_large" };
    case 422:
      return { ...reason, code: "unprocessable" };
    case 429:
    // Groq has no capacity for flex: https://console.groq.com/docs/flex-processing
    case 498:
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
  message: "The upstream of this model accepts no more requests at the moment; try again later.",
};
const operatorFailure = (operatorFault: OperatorFault): Failure => ({
  code: "upstream_failed",
  message: "The upstream of this model refused the gateway; its operator has been notified.",
  operatorFault,
});

/** An error in the gateway's own code, as callers see it. The log has the details. */
export const internalFailure: Failure = { code: "internal", message: "The gateway failed to process this request." };
