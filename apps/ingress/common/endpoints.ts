/**
 * The paths that callers may POST to, from the registry of operations, and the dialect of each
 * path.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { compactEndpoint, responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import type { Endpoint } from "#dialects/profile.ts";
import { profiles } from "#dialects/profiles.ts";
import { type OperationName, operationNames, operations } from "#operations/operations.ts";
import { servedPathOf } from "./vendor-paths.ts";

export interface ServedEndpoint extends Endpoint {
  operation: OperationName;
}

const served: readonly ServedEndpoint[] = operationNames.flatMap((operation) =>
  operations[operation].endpoints.map((endpoint) => ({ ...endpoint, operation })),
);

/** Identifies an endpoint in another thread. */
export const nameOf = ({ path, method }: Endpoint): string => path ?? (method as string);

/** By path, or by method for endpoints whose path names a model. */
export const endpoints: ReadonlyMap<string, ServedEndpoint> = new Map(
  served.map((endpoint) => [nameOf(endpoint), endpoint]),
);

/** OpenAI's Responses, by POST or on a WebSocket. */
export const responses = endpoints.get(responsesEndpoint.path) as ServedEndpoint;

/**
 * True for a WebSocket handshake at one of these paths. HTTP/1.0 has no upgrades:
 * https://www.rfc-editor.org/rfc/rfc9110#section-7.8
 */
export const isSocketHandshake = (
  { method, url = "", headers, httpVersion }: IncomingMessage,
  paths: readonly string[],
): boolean =>
  method === "GET" &&
  httpVersion !== "1.0" &&
  paths.includes(pathOf(servedPathOf(url).url)) &&
  headers.upgrade?.toLowerCase() === "websocket";

/** The endpoint that compacts conversations of OpenAI's Responses. */
export const compact = endpoints.get(compactEndpoint.path) as ServedEndpoint;

/** The versions under which Google's clients call. */
export const googleVersions = ["v1beta", "v1", "v1alpha", "v1beta1"] as const;

/**
 * Parses `models/vendor/name:generateContent`, without the version; undefined if there is no
 * method. Names may contain slashes and colons.
 */
export function modelCallOf(path: string): { model: string; method: string } | undefined {
  const colon = path.lastIndexOf(":");
  return colon <= 0 ? undefined : { model: path.slice(0, colon), method: path.slice(colon + 1) };
}

/**
 * The model and the method of a path without its version; undefined unless the method is one of
 * Google's, because other vendors' model names may also end in a colon and a word.
 */
export function modelCallIn(path: string): { model: string; method: string } | undefined {
  const call = path.startsWith("/models/") ? modelCallOf(path.slice("/models/".length)) : undefined;
  return call !== undefined && endpoints.get(call.method)?.method !== undefined ? call : undefined;
}

/** A request's path, without its query. */
export const pathOf = (url: string): string => url.split("?", 1)[0] as string;

/** True for a path of Ollama's API, whose errors have a format of their own. */
export const isOllamaPath = (url: string): boolean => url.startsWith("/api/");

const versions = /^(?:\/v1(?:alpha|beta1?)?(?=\/|$))*/;

interface VersionedPath {
  versions: string;
  rest: string;
}

/**
 * Splits a path: the versions at its beginning, and the rest without doubled slashes, a final
 * slash, and the `/openai` of Google's base URL for OpenAI's clients.
 */
export function versionedPathOf(path: string): VersionedPath {
  const plain = path.replace(/\/{2,}/g, "/").replace(/\/$/, "");
  const leading = versions.exec(plain)?.[0] ?? "";
  return { versions: leading, rest: plain.slice(leading.length).replace(/^\/openai(?=\/)/, "") };
}

const ownerOf = ({ versions: before, rest }: VersionedPath) =>
  conversationDialects.find((dialect) => profiles[dialect].ownsPath(before, rest));

/** By path, for those that are served: a request to one costs a look-up. */
const owners = new Map(
  served.flatMap(({ path }) => (path === undefined ? [] : [[path, ownerOf(versionedPathOf(path))]])),
);

/**
 * The dialect in which the caller of a path expects errors: that of the path, even if it is
 * slightly wrong, or else that of the headers.
 */
export function dialectOf(url: string, headers: IncomingHttpHeaders): ConversationDialect {
  const path = pathOf(url);
  const present = owners.get(path);
  if (present !== undefined) return present;
  const versioned = versionedPathOf(path);
  const owner = ownerOf(versioned);
  if (owner !== undefined) return owner;
  const method = endpoints.get(modelCallIn(versioned.rest)?.method ?? "");
  if (method !== undefined) return method.dialect;
  const query = new URLSearchParams(url.split("?", 2)[1] ?? "");
  return conversationDialects.findLast((dialect) => profiles[dialect].isClient?.(headers, query)) ?? "openai-chat";
}

/** The caller's headers that upstreams of its dialect read. */
export const callerHeadersOf = (dialect: ConversationDialect, headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    profiles[dialect].callerHeaders.flatMap((name) => {
      const value = headers[name];
      return typeof value === "string" && value !== "" && value.length <= 4_096 && /^[\x20-\x7e]*$/.test(value)
        ? [[name, value]]
        : [];
    }),
  );

/** The headers in which clients look for the id of their request. */
export function requestIdHeadersOf({
  id,
  url,
  headers,
}: {
  id: string;
  url: string;
  headers: IncomingHttpHeaders;
}): Record<string, string> {
  const { requestIdHeader } = profiles[dialectOf(url, headers)];
  return { "x-request-id": id, ...(requestIdHeader !== undefined && { [requestIdHeader]: id }) };
}
