/** The common part of OpenAI's dialects: endpoints, streams and errors. */
import type { Usage } from "../answer/compose.ts";
import type { PromptCache } from "../prompt-cache.ts";
import { type Dialect, type Fault, refuse, type Script, stringOf } from "./dialect.ts";

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

export const openaiErrorBody = (fault: Fault) => JSON.stringify({ error: openaiErrorOf(fault) });

/** A dialect with POST requests to these paths, which name their model in the body. */
export const openaiDialect = (name: string, paths: readonly string[], answer: Dialect["answer"]): Dialect => ({
  name,
  serves: (method, path) => method === "POST" && paths.includes(path),
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer,
});

/** https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop */
const stopsMax = 4;

/** The stop sequences of a request; refuses too many in OpenAI's words. */
export function stopsOf(stop: string | string[] | null | undefined): string[] {
  const stops = typeof stop === "string" ? [stop] : (stop ?? []);
  if (stops.length <= stopsMax) return stops;
  const lengths = `Expected an array with maximum length ${stopsMax}, but got an array with length ${stops.length}`;
  return refuse(`Invalid 'stop': array too long. ${lengths} instead.`, "stop", { code: "array_above_max_length" });
}

/** A stream with the usual error event, and without an opening unless it has one. */
export const openaiScript = (script: Partial<Script> & Pick<Script, "length" | "events" | "terminator">): Script => ({
  kind: "events",
  opening: "",
  errorEvent: (message) => `data: ${openaiErrorBody({ status: 500, message })}\n\n`,
  ...script,
});

/** The usage with the tokens that a cache has, in whole steps. */
export function cachedUsageOf(cache: PromptCache | undefined, body: unknown, usage: Usage): Usage {
  if (cache === undefined) return usage;
  const { tools, instructions, messages, input, prompt_cache_key: key } = body as Record<string, unknown>;
  const turns = messages ?? input;
  const parts = [tools, instructions, ...(Array.isArray(turns) ? turns : [turns])];
  const { read } = cache.automatic(
    parts.flatMap((part) => (part === undefined || part === null ? [] : [JSON.stringify(part)])),
    typeof key === "string" ? key : "",
  );
  return { ...usage, cachedTokens: Math.min(read, Math.floor(usage.promptTokens / 128) * 128) };
}
