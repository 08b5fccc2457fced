/** Errors in the format of OpenAI's endpoints. */
import type { Fault } from "./dialect.ts";

const typeOf = (status: number) => {
  if (status === 401) return { type: "authentication_error", code: "invalid_api_key" };
  if (status === 429) return { type: "rate_limit_error", code: "rate_limit_exceeded" };
  if (status >= 500) return { type: "server_error", code: status === 503 ? "server_is_overloaded" : null };
  return { type: "invalid_request_error", code: status === 404 ? "model_not_found" : null };
};

/** The fields of an error besides its status. */
export function openaiErrorOf({ status, message, param, code }: Fault) {
  const usual = typeOf(status);
  return { message, type: usual.type, param: param ?? null, code: code === undefined ? usual.code : code };
}

export const openaiErrorBody = (fault: Fault): string => JSON.stringify({ error: openaiErrorOf(fault) });
