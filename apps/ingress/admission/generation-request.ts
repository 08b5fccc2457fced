/** A request for a generation: admitted, its body read and checked. */
import type { KeyRecord } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Framing, StorageFields } from "#dialects/codec.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import type { Demand } from "#operations/demand.ts";
import type { OperationName } from "#operations/operations.ts";
import type { TraceContext } from "#tracing/trace-context.ts";
import type { Claim } from "../common/capacity.ts";
import type { Labels } from "../common/labels.ts";
import type { AnswerResponse } from "../response/generation-response.ts";

/** The messages that the caller of a session sends. */
export interface SessionInput {
  /**
   * The upstream accepted the session: from now on `send` takes bytes of messages, at most
   * `payloadBytesMax` at a time.
   */
  open(send: (payload: Buffer) => void): void;
  /**
   * The window of what the upstream has not taken is full (`isOpen` is false), or has capacity
   * again.
   */
  flow(isOpen: boolean): void;
}

/**
 * A generation that an ingress takes over: it is recorded as a later attempt of the one that a lost
 * ingress began.
 */
export interface EarlierRun {
  generationId: string;
  /** Epoch milliseconds. */
  receivedAt: number;
  /** How often it was taken over. */
  times: number;
  /** Absent for one that an ingress of an earlier version began. */
  labels?: Labels | undefined;
  /** The version of the catalogue that was in force at its admission. */
  priceVersion?: string | undefined;
}

export interface GenerationRequest extends Demand {
  id: string;
  caller: KeyRecord;
  dialect: ConversationDialect;
  /** In force at its admission: its prices apply. */
  catalogue: Pick<Catalogue, "models" | "groups" | "version" | "modelFor">;
  model: CatalogueModel;
  /** How many generations may wait on its queue in this ingress, and how long. */
  queue: { readonly waitingMax: number; readonly waitMs: number };
  /** The caller's limit on the wait for a worker, in milliseconds from its admission. */
  maxWaitMs?: number | undefined;
  /** Of the caller's group. */
  weight: number;
  operation: OperationName;
  framing: Framing;
  /** Of the body. */
  contentType: string;
  /** Its body's claim on the memory for bodies. */
  held: Claim;
  /** The caller's headers that an upstream of its dialect reads. */
  callerHeaders: Record<string, string>;
  response: AnswerResponse;
  /** Where the caller's messages come from, in a session. */
  input?: SessionInput | undefined;
  /** What the answer says of its storage. */
  storage?: StorageFields | undefined;
  /** Set where another ingress began it before: a queue that an operator drains still takes it. */
  earlier?: EarlierRun | undefined;
  /** When the request was received, in epoch milliseconds; at its admission by default. */
  receivedAt?: number | undefined;
  /** Called when a worker has taken it; again if it is restarted. */
  onBound?: (() => void) | undefined;
  /** Called when it is over, after everything was written to the response. */
  onEnd?: ((outcome: GenerationOutcome) => void) | undefined;
  labels: Labels;
  /** Undefined while tracing is off. */
  trace: TraceContext | undefined;
  requestId: string;
  /** Sent with the answer and with an error alike. */
  headers: Record<string, string>;
}
