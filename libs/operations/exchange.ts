/**
 * An operation as the worker sees it: how the upstream's request is made from the caller's, and how
 * the response is read. Pure except for the attachments, which `resolve` fetches, so that a thread
 * can handle large bodies.
 */

import type { Cut, Framing, StreamRelay, Target, WholeAnswer, WireRequest } from "#dialects/codec.ts";
import type { ConversationDialect, UpstreamDialect } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import type { AttachmentAddress, Data } from "#dialects/neutral/attachments.ts";
import type { NeutralRequest } from "#dialects/neutral/neutral.ts";
import type { Repair } from "#dialects/repairs/repairs.ts";
import type { Usage } from "#dialects/usage.ts";
import { defined } from "#wire/json/parse.ts";
import { warningLengthMax } from "./bounds.ts";
import type { OperationName } from "./operations.ts";
import type { UpstreamSession } from "./realtime/upstream-session.ts";

/** How the gateway lets an upstream cache the prompt. */
interface PromptCaching {
  ttl: "5m" | "1h";
  /** The shortest prompt that the model caches; the vendor's by default. */
  tokensMin?: number | undefined;
  /** Names the caller's session. */
  key?: string | undefined;
}

/** A caller's request, and the target that it is prepared for. */
export interface PreparationTask {
  operation: OperationName;
  dialect: ConversationDialect;
  framing: Framing;
  headers: Readonly<Record<string, string>>;
  /** The content type of the body. */
  contentType: string;
  body: Buffer;
  /** The catalogue's id of the model. */
  model: string;
  /** When the request was admitted: whole seconds since 1970. */
  createdAt: number;
  /** The dialect that is spoken with the upstream. */
  spoken: UpstreamDialect;
  target: Target;
  /** Another target may resume the answer, if the request can be decoded. */
  resumes: boolean;
  /** The text of the answer so far, for an upstream that continues it. */
  continued?: string | undefined;
  /** The upstream counts tokens. */
  countsTokens: boolean;
  /** Set if the gateway lets the upstream cache the prompt. */
  promptCache?: PromptCaching | undefined;
  /** Fields that the upstream refuses, by their paths (omitted-fields.ts). */
  omits?: readonly string[];
  /** Changes of the request that its target asked for by refusing it. */
  repairs?: readonly Repair[];
}

/**
 * Fetches or checks these attachments, in order; undefined for one that the upstream fetches
 * itself.
 */
export type ResolveAddresses = (addresses: readonly AttachmentAddress[]) => Promise<readonly (Data | undefined)[]>;

export type Prepared = Refused | PreparedConversation | PreparedCall | GatewayAnswer;

export interface Refused {
  kind: "refused";
  failure: Failure;
}

/** A request in the neutral form, with the body that it was decoded from. */
export interface DecodedRequest {
  /** The caller's body; for a large one only its settings. */
  body: Record<string, unknown>;
  request: NeutralRequest;
  /** The gateway ends the answer at these stop sequences, because the upstream does not. */
  cut?: Cut | undefined;
  /**
   * An estimate of the prompt's tokens, where the caller's dialect begins a stream with their
   * count.
   */
  inputTokens?: number | undefined;
}

/** The operation `answer`: its response may be translated, streamed and resumed. */
export interface PreparedConversation {
  kind: "conversation";
  request: WireRequest;
  resumes: boolean;
  /** Undefined if the caller's own bytes are sent. */
  decoded: DecodedRequest | undefined;
  /**
   * The settings of a large body, which replace it where only settings are read; undefined for a
   * small body.
   */
  settings?: Buffer;
  /** The names of tools with free text in bytes that are sent unchanged. */
  customNames?: ReadonlySet<string> | undefined;
  /** Bytes for a whole answer that are sent unchanged name the tool to call (openai-chat). */
  namesTool?: boolean;
  /** Further headers of the caller's response. */
  headers?: Record<string, string>;
}

/** Any other operation. */
export interface PreparedCall {
  kind: "call";
  request: WireRequest;
  /** Data for reading the response; it is copied to a thread. */
  context: unknown;
  /**
   * `foreign`: the upstream speaks another dialect than the caller, and `decoded` maps the fields
   * in its errors to the caller's.
   */
  errors: "own" | "foreign";
  decoded?: NeutralRequest;
  /** Further headers of the caller's response. */
  headers?: Record<string, string>;
}

/** The gateway answers itself, without an upstream. */
export interface GatewayAnswer {
  kind: "answered";
  body: Buffer;
  contentType: string;
  headers: Record<string, string>;
}

/** The worker's part of each operation. `prepare` makes `Context`. */
export interface OperationExchange<Context = unknown> {
  /**
   * Whether preparing the request loads a vocabulary of some 70 MB to estimate tokens. It takes a
   * while even for short texts.
   */
  isEstimated?(task: PreparationTask): boolean;
  /** Throws Refusal for a request that the upstream does not support. */
  prepare(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared>;
  /** Reads a whole response. */
  read(context: Context, bytes: Buffer): WholeAnswer;
}

/** The additional part of each operation except `answer`. */
export interface CallExchange<Context = unknown> extends OperationExchange<Context> {
  /** The dialect to speak with an upstream that speaks several. */
  wantedOf(dialect: ConversationDialect): UpstreamDialect;
  /** How a response is passed on that is neither JSON nor events; undefined for those. */
  rawOf?(context: Context): RawResponse | undefined;
  /**
   * `prepare` answers by itself when its task says that the upstream does not count tokens. Used if
   * the upstream has no such endpoint.
   */
  canEstimate?: boolean;
  /**
   * Reads a stream for a caller who wants one; undefined if the upstream streams nothing. Callers
   * get whole responses if the method is missing.
   */
  stream?(context: Context): StreamRelay | undefined;
}

export type RawResponse =
  /**
   * Bytes of any kind: the caller gets them as they arrive, with the upstream's content type.
   * `usage` is billed for them.
   */
  | { kind: "bytes"; usage: Usage }
  /** Messages of a WebSocket. */
  | { kind: "session"; session: UpstreamSession }
  /** A text, which is read whole like JSON. */
  | { kind: "text"; contentType: string };

/** A call whose response and errors are in the caller's dialect. */
export const ownCall = <Context>(request: WireRequest, context: Context): PreparedCall => ({
  kind: "call",
  request,
  context,
  errors: "own",
});

export const refused = (message: string, param?: string): Refused => ({
  kind: "refused",
  failure: { code: "invalid_request", message, ...defined({ param }) },
});

/** The refusal of an operation that the model's upstream does not support. */
export const refusedFor = (what: string) => refused(`This model does not serve ${what}.`, "model");

/** Tells callers what the model does not get of their request. */
export const warningHeaderOf = (warnings: readonly string[]): Record<string, string> => ({
  "x-sluice-warning": warnings.join(" ").slice(0, warningLengthMax),
});

/** Tells callers that the gateway estimated the token count. */
export const estimatedHeader = { "x-sluice-token-count": "estimated" };
