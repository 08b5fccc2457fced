/** A request for a generation, its body read and checked (request/body-reader.ts). */
import type { FastifyRequest } from "fastify";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Framing, StorageFields } from "#dialects/codec.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import type { AdmissionShare } from "#relay/admission-queue.ts";
import type { GenerationJob } from "#relay/job.ts";
import type { TraceContext } from "#tracing/trace-context.ts";
import type { ServedEndpoint } from "../common/endpoints.ts";
import type { Labels } from "../common/labels.ts";
import type { ReadBody } from "../request/body.ts";
import type { Session } from "../request/session.ts";
import type { ResponseLayers } from "../response/response-for.ts";

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

export interface GenerationRequest {
  /**
   * The caller and the headers; the requests of a WebSocket share the one that opened it. Its claim
   * on the memory for bodies covers at least `bytes`.
   */
  http: Pick<FastifyRequest, "caller" | "url" | "headers" | "bodyClaim"> &
    Partial<Pick<FastifyRequest, "trial" | "refusedCall">>;
  requestId: string;
  endpoint: ServedEndpoint;
  /** The catalogue's id, as the caller gave it. */
  model: string;
  framing: Framing;
  demand: ReadBody["demand"];
  /** The body; undefined once no further attempt can need it. */
  bytes: Buffer | undefined;
  labels: Labels;
  /** How the answer gets to its caller. */
  layers: ResponseLayers;
  /** Where the caller's messages come from, in a session. */
  input?: SessionInput;
  /** The statements of the answer about its storage. */
  storage?: StorageFields | undefined;
  /** In place of the model's own queue. */
  queue?: string;
  /**
   * A generation that an ingress takes over: it is recorded as a later attempt of the one that a
   * lost ingress began, and a queue that an operator drains still takes it. `attempts`: how many
   * its record counts before its own.
   */
  earlier?: { generationId: string; attempts: number } | undefined;
  /** The batch whose line it is. */
  batch?: string | undefined;
  /** The vendor's batch in which it may be sent, or was: then its limits do not refuse it. */
  vendorBatch?: GenerationJob["vendorBatch"];
  /** A copy of a caller's request, for the target in the model's `mirror`. It has no limits. */
  isMirrored?: boolean;
  /** When the request was received, in epoch milliseconds; now by default. */
  receivedAt?: number;
  /** The version of the catalogue whose prices apply; the current one by default. */
  priceVersion?: string | undefined;
  /** Called when a worker has taken it; again if it is restarted. */
  onBound?: (() => void) | undefined;
  /** Called when it is over, after everything was written to the response. */
  onEnd?: ((outcome: GenerationOutcome) => void) | undefined;
}

/** The decisions about a request at its admission. */
export interface Admitted {
  id: string;
  model: CatalogueModel;
  /** In force at its admission: its prices apply. */
  catalogue: Pick<Catalogue, "groups" | "version" | "modelFor" | "modelWith">;
  /** How many generations may wait on its queue in this ingress, and how long. */
  queue: { readonly waitingMax: number; readonly waitMs: number; readonly maxWaitMs?: number | undefined };
  /** Names the caller's session in a job; undefined where no choice of the worker depends on it. */
  session: Session | undefined;
  /** The caller's limit on the wait for a worker, in milliseconds from its admission. */
  maxWaitMs: number | undefined;
  /** Its place on a busy queue. */
  share: AdmissionShare;
  /** The caller's choice for flex without capacity; undefined for the model's setting. */
  whenFlexFull: "wait" | "standard" | undefined;
  /** The media type of the body. */
  contentType: string;
  /** Undefined while tracing is off. */
  trace: TraceContext | undefined;
  /** Sent with the answer and with an error alike. */
  headers: Record<string, string>;
}
