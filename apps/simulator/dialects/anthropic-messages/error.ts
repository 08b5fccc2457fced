/** Errors in the format of Anthropic's endpoints. */
import type { SentFault } from "../dialect.ts";

const typeOfStatus: Record<number, string> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

const typeOf = (status: number) => typeOfStatus[status] ?? (status < 500 ? "invalid_request_error" : "api_error");

export const anthropicErrorOf = ({ status, message, code, requestId }: SentFault) => ({
  type: "error",
  error: { type: typeOf(status), message, details: code === undefined ? undefined : { error_code: code } },
  request_id: requestId ?? null,
});

export const anthropicErrorBody = (fault: SentFault) => JSON.stringify(anthropicErrorOf(fault));
