/** The paths that callers may POST to, and what each means: the dialect, the operation, and the framing of the answer. */
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
  /** Where it is less than the general bound. */
  bodyBytesMax?: number;
  /** Rules that a schema can't express; undefined for a valid body. */
  faultOf?(body: Record<string, unknown>): Failure | undefined;
}

type Body = Record<string, unknown>;

/** A worker reads these bodies as a whole: 300,000 tokens (https://platform.openai.com/docs/api-reference/embeddings/create) take half of it, a prompt for an image far less. */
const embeddingBytesMax = 4 << 20;
const promptBytesMax = 1 << 20;

/** Refuses references to objects that a vendor would have stored for the caller. */
const storedFaultIn =
  (fieldIn: (body: Body) => Omit<Failure, "code"> | undefined) =>
  (body: Body): Failure | undefined => {
    const field = fieldIn(body);
    return field && { code: "invalid_request", ...field };
  };
const storedByOpenai = storedFaultIn(openaiFieldIn);
const storedByAnthropic = storedFaultIn(anthropicFieldIn);
const storedByGoogle = storedFaultIn(googleFieldIn);

/** The path of OpenAI's Responses, for POST requests and for WebSockets. */
export const responsesPath = "/v1/responses";
export const responsesEndpoint: Endpoint = {
  dialect: "openai-responses",
  operation: "answer",
  schema: responsesRequestSchema,
  faultOf: storedByOpenai,
};

/** Does the request ask for a WebSocket, at the path that has them? HTTP/1.0 has no upgrades: https://www.rfc-editor.org/rfc/rfc9110#section-7.8 */
export const isSocketHandshake = ({ method, url = "", headers, httpVersion }: IncomingMessage): boolean =>
  method === "GET" &&
  httpVersion !== "1.0" &&
  url.split("?", 1)[0] === responsesPath &&
  headers.upgrade?.toLowerCase() === "websocket";

/** Endpoints whose body names the model and whether to stream, by path. */
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

/** Endpoints whose body is a form, by path. */
export const formEndpoints: Record<string, Endpoint> = {
  "/v1/images/edits": { dialect: "openai-chat", operation: "image-edit", schema: imageEditSchema },
};

/** Google's endpoints by method: the path has it behind the model's name and a colon. */
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

/** A name by which an endpoint can be found in another thread. */
export const nameOf = (endpoint: Endpoint): string => names.get(endpoint) as string;
export const endpointNamed = (name: string): Endpoint => named.get(name) as Endpoint;

/** The versions under which Google's clients call. */
export const googleVersions = ["v1beta", "v1", "v1alpha", "v1beta1"] as const;

/** `models/vendor/name:generateContent` or the like, from behind the version; undefined when there is no method. Names may hold slashes and colons. */
export function modelCallOf(path: string): { model: string; method: string } | undefined {
  const colon = path.lastIndexOf(":");
  return colon <= 0 ? undefined : { model: path.slice(0, colon), method: path.slice(colon + 1) };
}

/** The model and the method of a path without its version; undefined unless the method is one of Google's, for other vendors' model names may end in a colon and a word, too. */
export function modelCallIn(path: string): { model: string; method: string } | undefined {
  const call = path.startsWith("/models/") ? modelCallOf(path.slice("/models/".length)) : undefined;
  return call !== undefined && Object.hasOwn(modelMethods, call.method) ? call : undefined;
}

/** A request's path, without its query. */
export const pathOf = (url: string): string => url.split("?", 1)[0] as string;

const versions = /^(?:\/v1(?:alpha|beta1?)?(?=\/|$))*/;

/** Splits a path: the versions at its beginning, and the rest without doubled slashes, a final slash, and the `/openai` of Google's base URL for OpenAI's clients. */
export function versionedPathOf(path: string): { versions: string; rest: string } {
  const plain = path.replace(/\/{2,}/g, "/").replace(/\/$/, "");
  const leading = versions.exec(plain)?.[0] ?? "";
  return { versions: leading, rest: plain.slice(leading.length).replace(/^\/openai(?=\/)/, "") };
}

/** Google's clients ask for a stream in the path and the query, all others in the body. */
export function framingOf(body: Record<string, unknown>, method: string | undefined, alt: string | undefined): Framing {
  if (method === undefined) return body.stream === true ? "sse" : "whole";
  if (!method.startsWith("stream")) return "whole";
  return alt === "sse" ? "sse" : "array";
}

/** The dialect in which the caller of a path expects errors: that of the path, even when it is slightly wrong, or else that of the headers. */
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

/** The caller's headers that upstreams of its dialect read. */
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

/** The headers in which clients look for the id of their request. */
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
