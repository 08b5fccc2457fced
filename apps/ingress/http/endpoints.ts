/** The paths that callers may POST to, and what each means: dialect, operation, and how the answer is wanted. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { TSchema } from "typebox";
import { messagesRequestSchema, tokenCountRequestSchema } from "#dialects/anthropic-messages/schema.ts";
import { statefulFieldIn as anthropicFieldIn } from "#dialects/anthropic-messages/stateless.ts";
import type { Framing } from "#dialects/codec.ts";
import type { ConversationDialect, Operation } from "#dialects/dialect.ts";
import { batchEmbedContentsSchema, embedContentSchema, embeddingRequestSchema } from "#dialects/embeddings.ts";
import type { Failure } from "#dialects/errors.ts";
import { countRequestSchema, generateRequestSchema } from "#dialects/gemini/schema.ts";
import { statefulFieldIn as googleFieldIn } from "#dialects/gemini/stateless.ts";
import { chatRequestSchema } from "#dialects/openai-chat/schema.ts";
import { statefulFieldIn as chatFieldIn } from "#dialects/openai-chat/stateless.ts";
import { imageEditSchema, imageRequestSchema } from "#dialects/openai-images/schema.ts";
import { responsesRequestSchema } from "#dialects/openai-responses/schema.ts";
import { statefulFieldIn as openaiFieldIn } from "#dialects/openai-responses/stateless.ts";

export interface Endpoint {
  dialect: ConversationDialect;
  operation: Operation;
  schema: TSchema;
  /** Where that is less than any body may have. */
  bodyBytesMax?: number;
  /** What a schema can't say. */
  faultOf?(body: Record<string, unknown>): Failure | undefined;
}

type Body = Record<string, unknown>;

/** A worker reads these at once: 300,000 tokens (https://platform.openai.com/docs/api-reference/embeddings/create) take half of it, a prompt for a picture far less. */
const embeddingBytesMax = 4 << 20;
const promptBytesMax = 1 << 20;

/** Callers' references to what a vendor would have stored. */
const storedFaultIn =
  (fieldIn: (body: Body) => Omit<Failure, "code"> | undefined) =>
  (body: Body): Failure | undefined => {
    const field = fieldIn(body);
    return field && { code: "invalid_request", ...field };
  };
const storedByOpenai = storedFaultIn(openaiFieldIn);
const storedByAnthropic = storedFaultIn(anthropicFieldIn);
const storedByGoogle = storedFaultIn(googleFieldIn);

/** Where OpenAI's Responses are served, to POST requests and over WebSockets. */
export const responsesPath = "/v1/responses";
export const responsesEndpoint: Endpoint = {
  dialect: "openai-responses",
  operation: "answer",
  schema: responsesRequestSchema,
  faultOf: storedByOpenai,
};

/** Does a request ask to become a WebSocket, where there are any? HTTP/1.0 has no upgrades: https://www.rfc-editor.org/rfc/rfc9110#section-7.8 */
export const isSocketHandshake = ({ method, url = "", headers, httpVersion }: IncomingMessage): boolean =>
  method === "GET" &&
  httpVersion !== "1.0" &&
  url.split("?", 1)[0] === responsesPath &&
  headers.upgrade?.toLowerCase() === "websocket";

/** Endpoints whose body names the model and says whether it streams. */
export const endpoints: Record<string, Endpoint> = {
  "/v1/chat/completions": {
    dialect: "openai-chat",
    operation: "answer",
    schema: chatRequestSchema,
    faultOf: storedFaultIn(chatFieldIn),
  },
  [responsesPath]: responsesEndpoint,
  "/v1/responses/compact": {
    dialect: "openai-responses",
    operation: "compaction",
    schema: responsesRequestSchema,
    faultOf: storedByOpenai,
  },
  "/v1/responses/input_tokens": {
    dialect: "openai-responses",
    operation: "token-count",
    schema: responsesRequestSchema,
    faultOf: storedByOpenai,
  },
  "/v1/messages": {
    dialect: "anthropic-messages",
    operation: "answer",
    schema: messagesRequestSchema,
    faultOf: storedByAnthropic,
  },
  "/v1/messages/count_tokens": {
    dialect: "anthropic-messages",
    operation: "token-count",
    schema: tokenCountRequestSchema,
    faultOf: storedByAnthropic,
  },
  "/v1/embeddings": {
    dialect: "openai-chat",
    operation: "embedding",
    schema: embeddingRequestSchema,
    bodyBytesMax: embeddingBytesMax,
  },
  "/v1/images/generations": {
    dialect: "openai-chat",
    operation: "image-generation",
    schema: imageRequestSchema,
    bodyBytesMax: promptBytesMax,
  },
};

/** The same, for endpoints whose body is a form. */
export const formEndpoints: Record<string, Endpoint> = {
  "/v1/images/edits": { dialect: "openai-chat", operation: "image-edit", schema: imageEditSchema },
};

/** Google's: behind the model's name in the path, after a colon. */
export const modelMethods: Record<string, Endpoint> = {
  generateContent: { dialect: "gemini", operation: "answer", schema: generateRequestSchema, faultOf: storedByGoogle },
  streamGenerateContent: {
    dialect: "gemini",
    operation: "answer",
    schema: generateRequestSchema,
    faultOf: storedByGoogle,
  },
  countTokens: { dialect: "gemini", operation: "token-count", schema: countRequestSchema, faultOf: storedByGoogle },
  embedContent: {
    dialect: "gemini",
    operation: "embedding",
    schema: embedContentSchema,
    bodyBytesMax: embeddingBytesMax,
  },
  batchEmbedContents: {
    dialect: "gemini",
    operation: "embedding",
    schema: batchEmbedContentsSchema,
    bodyBytesMax: embeddingBytesMax,
  },
};

const named = new Map(Object.entries({ ...endpoints, ...formEndpoints, ...modelMethods }));
const names = new Map([...named].map(([name, endpoint]) => [endpoint, name]));

export const allEndpoints: readonly Endpoint[] = [...named.values()];

/** A name for an endpoint, by which a thread knows it too. */
export const nameOf = (endpoint: Endpoint): string => names.get(endpoint) as string;
export const endpointNamed = (name: string): Endpoint => named.get(name) as Endpoint;

/** The versions under which Google's clients call. */
export const googleVersions = ["v1beta", "v1", "v1alpha", "v1beta1"] as const;

/** `models/vendor/name:generateContent` or the like, from behind the version; undefined when there is no method. Names may hold slashes and colons. */
export function modelCallOf(path: string): { model: string; method: string } | undefined {
  const colon = path.lastIndexOf(":");
  return colon <= 0 ? undefined : { model: path.slice(0, colon), method: path.slice(colon + 1) };
}

/** The call of one of Google's methods that a path without its version is. The names of other vendors' models may end in a colon and a word, too. */
export function modelCallIn(path: string): { model: string; method: string } | undefined {
  const call = path.startsWith("/models/") ? modelCallOf(path.slice("/models/".length)) : undefined;
  return call !== undefined && Object.hasOwn(modelMethods, call.method) ? call : undefined;
}

/** A request's path, without its query. */
export const pathOf = (url: string): string => url.split("?", 1)[0] as string;

const versions = /^(?:\/v1(?:alpha|beta1?)?(?=\/|$))*/;

/** A path in two: the versions that it begins with, and the rest without doubled slashes, a last slash, and the `/openai` of Google's base URL for OpenAI's clients. */
export function versionedPathOf(path: string): { versions: string; rest: string } {
  const plain = path.replace(/\/{2,}/g, "/").replace(/\/$/, "");
  const leading = versions.exec(plain)?.[0] ?? "";
  return { versions: leading, rest: plain.slice(leading.length).replace(/^\/openai(?=\/)/, "") };
}

/** Google's streams are asked for by the path and its query, all others by the body. */
export function framingOf(body: Record<string, unknown>, method: string | undefined, alt: string | undefined): Framing {
  if (method === undefined) return body.stream === true ? "sse" : "whole";
  if (!method.startsWith("stream")) return "whole";
  return alt === "sse" ? "sse" : "array";
}

/** The dialect in which a path's callers expect their errors: that of the path as it was meant, or else of the callers' headers. */
export function dialectOf(url: string, headers: IncomingHttpHeaders): ConversationDialect {
  const { versions: before, rest } = versionedPathOf(pathOf(url));
  if (/^\/messages(\/|$)/.test(rest)) return "anthropic-messages";
  if (/^\/responses(\/|$)/.test(rest)) return "openai-responses";
  if (/^\/(chat\/completions|embeddings|images)(\/|$)/.test(rest)) return "openai-chat";
  if (/v1(alpha|beta1?)/.test(before) || modelCallIn(rest) !== undefined) return "gemini";
  return clientDialectOf(url, headers);
}

function clientDialectOf(url: string, headers: IncomingHttpHeaders): ConversationDialect {
  const query = new URLSearchParams(url.split("?", 2)[1] ?? "");
  const client = `${headers["user-agent"] ?? ""} ${headers["x-goog-api-client"] ?? ""}`;
  if (
    headers["x-goog-api-key"] !== undefined ||
    client.includes("google-genai-sdk/") ||
    ["key", "pageSize", "pageToken"].some((name) => query.has(name))
  )
    return "gemini";
  return headers["anthropic-version"] !== undefined ? "anthropic-messages" : "openai-chat";
}

/** What of a caller's headers upstreams of its dialect read. */
export function callerHeadersOf(dialect: ConversationDialect, headers: IncomingHttpHeaders): Record<string, string> {
  const names = dialect === "anthropic-messages" ? ["anthropic-version", "anthropic-beta"] : [];
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name];
      return typeof value === "string" && value !== "" && value.length <= 4_096 && /^[\x20-\x7e]*$/.test(value)
        ? [[name, value]]
        : [];
    }),
  );
}

/** A request's id under the names that clients look for it. */
export const requestIdHeadersOf = ({
  id,
  url,
  headers,
}: {
  id: string;
  url: string;
  headers: IncomingHttpHeaders;
}): Record<string, string> => ({
  "x-request-id": id,
  ...(dialectOf(url, headers) === "anthropic-messages" && { "request-id": id }),
});
