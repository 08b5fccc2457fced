/**
 * A dialect as the gateway's endpoints and upstream connections use it: paths, errors, headers,
 * model lists and keep-alives. The codec (codec.ts) reads and writes the conversations themselves.
 * A profile loads no codec, so that processes without conversations can use it.
 */

import type { IncomingHttpHeaders } from "node:http";
import type { TSchema } from "typebox";
import type { JsonObject } from "#wire/json/parse.ts";
import type { Framing } from "./codec.ts";
import type { ConversationDialect, UpstreamDialect } from "./dialect.ts";
import type { ErrorCode, Failure } from "./errors.ts";
import type { ModelTraits } from "./neutral/model-traits.ts";
import type { StoredReferences } from "./openai-responses/stored-references.ts";

/** An endpoint for POST requests of an operation, with the schema of their body. */
export interface Endpoint {
  dialect: ConversationDialect;
  schema: TSchema;
  /** The whole path. Undefined for Google's style, where the path names a model and `method`. */
  path?: string;
  /** Follows the model's name and a colon. */
  method?: string;
  /** Set if it is smaller than the ingress's general bound. */
  bodyBytesMax?: number;
  /** The model of a body that names none. */
  modelDefault?: string;
  /** How the caller gets its answer, where the dialect's own rule does not apply. */
  framingOf?(body: JsonObject): Framing;
  /** Checks rules that a schema cannot express; undefined for a valid body. */
  faultOf?(body: JsonObject): Failure | undefined;
  /**
   * The references of a body to objects that the gateway stores for its caller, in dialects with
   * such references.
   */
  referencesIn?(body: JsonObject): StoredReferences | undefined;
}

/** The operations for which each dialect has its own endpoints. */
interface ConversationEndpoints {
  answer: readonly Endpoint[];
  "token-count"?: readonly Endpoint[];
}

/** The requested length and number of answers. */
interface RequestedLength {
  /** Output tokens of each choice, if the caller limits them. */
  outputTokensMax: number | undefined;
  /** How many answers the caller asks for. */
  choices: number;
  /** The caller asks for speech or images besides text. */
  wantsMedia: boolean;
}

/** An answer whose stream failed. */
interface FailedAnswer {
  requestId: string;
  model: string;
  /** Events that the caller has received of the answer. */
  events: number;
}

/** A model of the catalogue, as model lists show it. */
export interface ListedModel {
  readonly id: string;
  readonly name: string;
  readonly ownedBy: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly contextWindow?: number;
  readonly outputTokensMax?: number;
  readonly capabilities: readonly string[];
  /** Fields that OpenAI's form shows in addition. */
  readonly offer?: object;
  /** The first target of requests in a dialect. */
  targetOf?(dialect: ConversationDialect): ListedTarget | undefined;
}

export interface ListedTarget {
  /** In which the upstream gets the request. */
  dialect: UpstreamDialect;
  /** The upstream's name of the model. */
  model: string;
  traits: ModelTraits;
}

/** The state of a rate limit. */
interface LimitState {
  what: "requests" | "tokens";
  limit: number;
  remaining: number;
  /** Whole seconds until the whole limit is available again. */
  resetSeconds: number;
  /** The same as a time: whole seconds since 1970. */
  resetsAt: number;
}

/** The part of a profile for calling an upstream. */
export interface UpstreamProfile {
  /** Where the vendor expects the credential. */
  authentication: "bearer" | "x-api-key" | "x-goog-api-key";
  /**
   * A GET of this path costs nothing, and any response shows that the upstream is reachable.
   * Appended to the upstream's base URL.
   */
  probePath: string;
}

export interface Profile extends UpstreamProfile {
  endpoints: ConversationEndpoints;
  /**
   * True if a path belongs to this dialect, even if it is slightly wrong. `versions` is the path's
   * beginning, such as `/v1`, and `rest` what follows.
   */
  ownsPath(versions: string, rest: string): boolean;
  /**
   * True if a request to a shared path, such as the model list, comes from a client of this
   * dialect.
   */
  isClient?(headers: IncomingHttpHeaders, query: URLSearchParams): boolean;
  /** How to set the base URL of a client. */
  baseUrlAdvice: string;
  /** The caller's headers that upstreams of this dialect read. */
  callerHeaders: readonly string[];
  /**
   * The one of `callerHeaders` that lists features, separated by commas; an upstream gets those
   * that the catalogue allows.
   */
  featuresHeader?: string;
  /** The header in which clients look for the id of their request, besides `x-request-id`. */
  requestIdHeader?: string;
  /** `method` and `alt` come from the URL, for endpoints with a method. */
  framingOf(body: JsonObject, method: string | undefined, alt: string | undefined): Framing;
  requestedLengthOf(body: JsonObject): RequestedLength;
  /**
   * The field of a request that holds the conversation, and the shortest value that replaces it.
   */
  conversation: { field: string; empty: unknown };
  /** Upstreams fetch documents by address themselves, not only images. */
  fetchesFiles: boolean;
  /** The format of its embeddings; undefined if it has none. */
  embeddings: "openai" | "gemini" | undefined;
  /** The HTTP status of an error response. */
  statusOf(code: ErrorCode): number;
  /** The complete error body, as JSON text. `requestId` is the one in the response's header. */
  errorBodyOf(failure: Failure, requestId: string): string;
  /** The end of a failed stream, as server-sent events; no success terminator may follow it. */
  errorEventOf(failure: Failure, answer: FailedAnswer): string;
  /**
   * Break the connection after the error: some clients ignore an error event and take the end of
   * the connection for the end of the answer.
   */
  breaksAfterError: boolean;
  /**
   * The keep-alive of a stream that has begun. Some clients need an event, because their timeout
   * counts events and not bytes.
   */
  keepAlive: string;
  /** True for a client that fails on an event with an `id:` line. */
  rejectsEventIds?(headers: IncomingHttpHeaders): boolean;
  /** The response headers that tell a caller the state of a rate limit. */
  limitHeadersOf(state: LimitState): Record<string, string>;
  modelBodyOf(model: ListedModel): object;
  /** The list of models, or the page of it that the query asks for. */
  modelListOf(models: readonly ListedModel[], query: URLSearchParams): object;
}

/**
 * Clients of every dialect ignore empty lines between two events, as long as no event has an id.
 * There are two, because Google's client for Go and other simple readers split a stream at its
 * double line ends, and take a single one for the beginning of the next event.
 */
export const emptyLines = "\n\n";

/**
 * The form of a keep-alive in a stream whose events have ids. There OpenAI's libraries take an
 * empty line for an event, because the last id stays in force
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation), so
 * a comment without an empty line replaces it.
 */
export const keepAliveAmongIds = (keepAlive: string) => (keepAlive === emptyLines ? ": keep-alive\n" : keepAlive);

/** An endpoint's rule that rejects references to objects that a vendor would have stored. */
export const storedFaultIn =
  (fieldIn: (body: JsonObject) => Omit<Failure, "code"> | undefined) =>
  (body: JsonObject): Failure | undefined => {
    const field = fieldIn(body);
    return field && { code: "invalid_request", ...field };
  };

export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0;

/** A time in whole seconds since 1970, in the format of RFC 3339 without fractions. */
export const timeTextOf = (seconds: number) => new Date(seconds * 1_000).toISOString().replace(".000Z", "Z");

/** The index of the page that follows this model; 0 without a model. */
export const indexAfter = (models: readonly ListedModel[], id: string | null) =>
  id === null ? 0 : models.findIndex((model) => model.id === id) + 1;

/** The page size from a query's text. */
export function pageSizeOf(text: string | null, fallback: number, max: number): number {
  const size = Number(text);
  return text !== null && Number.isInteger(size) && size >= 1 ? Math.min(size, max) : fallback;
}
