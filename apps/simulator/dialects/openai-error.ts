/** Errors as OpenAI's endpoints send them. */

const typeOf = (status: number) => {
  if (status === 401) return { type: "authentication_error", code: "invalid_api_key" };
  if (status === 429) return { type: "rate_limit_error", code: "rate_limit_exceeded" };
  if (status >= 500) return { type: "server_error", code: status === 503 ? "server_is_overloaded" : null };
  return { type: "invalid_request_error", code: status === 404 ? "model_not_found" : null };
};

export function openaiErrorBody({ status, message, param }: { status: number; message: string; param?: string | undefined }): string {
  const { type, code } = typeOf(status);
  return JSON.stringify({ error: { message, type, param: param ?? null, code } });
}
