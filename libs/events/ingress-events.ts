/**
 * The events of an ingress: what happens to each request and to each generation. No event carries
 * content or a secret.
 *
 *     received ─▶ admitted ─▶ queued ─▶ dispatched ─▶ bound ─▶ answering ─▶ firstContent ─▶ chunk … ─▶ ended
 *                                           ▲                                                │
 *                                           └──────────────────── restarted ◀────────────────┘
 *
 * Every generation that is received ends exactly once, from any state; the other events may be
 * missing.
 */
import type { Framing } from "#dialects/codec.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { ErrorCode } from "#dialects/errors.ts";
import type { Bill } from "#ledger/bill.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { OperationName } from "#operations/operations.ts";
import type { TraceContext } from "#tracing/trace-context.ts";

/** The facts about a generation that do not change. All of its events carry the same object. */
export interface GenerationFacts {
  readonly generationId: string;
  readonly requestId: string;
  readonly keyId: string;
  readonly group: string;
  readonly account: string | undefined;
  /**
   * The caller's own name of whom it asks for; null for none. Content of the caller: not for logs
   * and metrics.
   */
  readonly user: string | null;
  /** Its own name of the session; the same holds for it. */
  readonly session: string | null;
  /** Tags of the key and of the request. Not for logs and metrics either. */
  readonly tags: readonly string[];
  /** The catalogue's id of the model that the caller asked for. */
  readonly model: string;
  readonly queue: string;
  readonly dialect: ConversationDialect;
  readonly operation: OperationName;
  readonly framing: Framing;
  readonly bodyBytes: number;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** The batch whose line it is. */
  readonly batch?: string | undefined;
  /** Undefined while tracing is off. */
  readonly trace: TraceContext | undefined;
}

/** "complete", "left" (the caller closed the connection), or the code of the error. */
export type GenerationOutcome = "complete" | "left" | ErrorCode;

/** Where the answer, or the last failure, came from. */
export interface Source {
  readonly upstream: string;
  /** The upstream's name of the model. */
  readonly target: string;
  /** The upstream's dialect. */
  readonly dialect: string;
  /** Calls of upstreams. */
  readonly calls: number;
  /** Ended attempts, if any of them failed. */
  readonly callLog?: Readonly<NonNullable<UsageRecord["callLog"]>>;
  /** The operator's cost in nano-units; undefined if the catalogue does not say. */
  readonly cost?: bigint;
}

interface GenerationEvent {
  readonly generation: GenerationFacts;
}

interface AttemptEvent extends GenerationEvent {
  /** Counts from 1. */
  readonly attempt: number;
}

export interface GenerationEnded extends GenerationEvent {
  readonly outcome: GenerationOutcome;
  /** The HTTP status that the caller got, or would have got; 0 if none was decided. */
  readonly status: number;
  /** The catalogue's id of the model that answered: `generation.model` or one of its fallbacks. */
  readonly modelAnswered: string;
  readonly upstreamRequestId: string | undefined;
  /** From the receipt to the first worker; undefined if no worker took it. */
  readonly waitedMs: number | undefined;
  /** From the receipt to the first content; undefined without content. */
  readonly firstTokenMs: number | undefined;
  readonly durationMs: number;
  /** Undefined if nothing is billed. */
  readonly bill: Bill | undefined;
  /** Undefined if no upstream was called. */
  readonly source: Source | undefined;
  /** A line of a batch that waits for its vendor's batch, and is sent again then. */
  readonly isDeferred?: boolean;
  /** Counted from 1; 0 if it was never dispatched. */
  readonly attempt: number;
  /**
   * From the receipt to the admission queue, and to the first job; undefined if it did not get
   * there.
   */
  readonly queuedMs: number | undefined;
  readonly dispatchedMs: number | undefined;
  /** The chunks and bytes from the worker. */
  readonly chunks: number;
  readonly bytes: number;
}

/** A generation that was refused before it began. */
export interface RefusedCall {
  readonly model: string;
  readonly queue: string;
  readonly operation: OperationName;
  readonly dialect: ConversationDialect;
}

export interface RequestEnded {
  readonly requestId: string;
  readonly transport: "http" | "websocket";
  /** Undefined for a frame of a WebSocket. */
  readonly method: string | undefined;
  /** The pattern of the route, or "other". */
  readonly path: string;
  /**
   * 499 if the caller left before the end of the response, 101 if the connection became a
   * WebSocket.
   */
  readonly status: number;
  /** Undefined for a caller without a valid key. */
  readonly keyId: string | undefined;
  readonly group: string | undefined;
  readonly account: string | undefined;
  /** As those of a generation. */
  readonly user: string | null;
  readonly session: string | null;
  readonly tags: readonly string[];
  /** The code of the gateway's own error that answered it. */
  readonly errorCode: ErrorCode | undefined;
  /** Set if it would have been a generation of a known model. */
  readonly refusedCall?: RefusedCall | undefined;
  /** Set for a line of a batch. */
  readonly batchLine?:
    | { readonly batch: string; readonly generationId: string; readonly receivedAt: number; readonly attempts: number }
    | undefined;
  /**
   * `generation`: a generation answered it and reports its own end. `answered`: the ingress
   * answered it, possibly with an error.
   */
  readonly outcome: "generation" | "answered" | "left" | "upgraded";
  /** Undefined for an upgrade and for a rejected frame, which take no time of their own. */
  readonly durationMs: number | undefined;
  /** The number of retries that the client reports. */
  readonly retries: string | undefined;
  /**
   * The trace of a known caller's request that the gateway answered with its own error; undefined
   * for any other, and while tracing is off.
   */
  readonly trace: TraceContext | undefined;
}

export interface IngressEvents {
  /** The ingress accepted the request as a generation. */
  received: GenerationEvent;
  /** The caller's rate limits admitted it, or it has none. */
  admitted: GenerationEvent;
  /** It waits in this ingress's admission queue. */
  queued: GenerationEvent;
  /** Its turn came, and its caller had been told an expected wait before. */
  waitMet: GenerationEvent & { readonly expectedMs: number; readonly waitedMs: number };
  /** Its job is on the way to the queue. */
  dispatched: AttemptEvent;
  /** A worker runs the attempt. */
  bound: AttemptEvent & { readonly waitedMs: number };
  /** The upstream began to answer. */
  answering: GenerationEvent & { readonly status: number; readonly upstreamRequestId: string | undefined };
  firstContent: GenerationEvent & { readonly firstTokenMs: number };
  /**
   * Bytes of the answer arrived; on the hot path. `gapMs` is the time since the chunk before it,
   * undefined for the first.
   */
  chunk: GenerationEvent & { readonly bytes: number; readonly gapMs: number | undefined };
  /** The worker or the job was lost and another attempt begins; the caller does not notice. */
  restarted: GenerationEvent;
  /** The worker seems to be gone, and this process may die too; at most once, before `ended`. */
  witnessed: GenerationEnded;
  ended: GenerationEnded;

  /** The ingress has a route with this pattern. */
  pathServed: { readonly path: string };
  requestEnded: RequestEnded;
  /**
   * The ingress answers a request, or closes a WebSocket, with its own error. A generation's errors
   * are in `ended`.
   */
  requestRefused: { readonly requestId: string; readonly code: ErrorCode };
  /**
   * A limit rejected a request or broke a connection. `scope` is the limit's owner: a key, a group,
   * an account, a tag, or the ingress.
   */
  limitReached: { readonly limit: string; readonly scope: string; readonly keyId: string };
  /**
   * A whole message of a session passed, from the caller (`up`) or to it (`down`); on the hot path.
   */
  sessionMessage: { readonly direction: "up" | "down"; readonly dialect: ConversationDialect };
  socketClosed: {
    readonly requestId: string;
    readonly keyId: string;
    readonly path: string;
    /** Requests, or the caller's messages of a session. */
    readonly turns: number;
    /** The close code of the WebSocket. */
    readonly code: number;
    readonly durationMs: number;
  };
  /** An error in the gateway's own code failed a request. */
  fault: { readonly error: unknown; readonly requestId: string };
}
