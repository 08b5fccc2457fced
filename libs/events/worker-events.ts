/**
 * The events of an attempt in its worker, for logs, metrics, traces or a ledger. No event carries
 * content of callers or upstreams.
 */
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import type { Finish } from "#dialects/neutral/neutral.ts";
import type { Repair } from "#dialects/repairs/repairs.ts";
import type { Usage } from "#dialects/usage.ts";
import type { OperationName } from "#operations/operations.ts";
import type { TraceContext } from "#tracing/trace-context.ts";
import type { Source } from "./ingress-events.ts";

/** An attempt of a generation. All of its events carry the same object. */
export interface AttemptInfo {
  readonly generation: string;
  /** Counted from 1. A generation has another attempt when its worker was lost. */
  readonly attempt: number;
  /** How usage records name it, where that differs: it repeats an attempt of a lost ingress. */
  readonly recorded?: { readonly generation: string; readonly attempt: number } | undefined;
  readonly queue: string;
  readonly operation: OperationName;
  readonly dialect: ConversationDialect;
  /** The model that the caller requested. */
  readonly requestedModel: string;
  readonly group: string;
  readonly account: string | undefined;
  /** The id of the caller's key, never the key. */
  readonly keyId: string;
  /** The caller's own marks, for its usage record: not for logs and metrics. */
  readonly user?: string | undefined;
  readonly sessionName?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  /** The batch whose line the request is. */
  readonly batch?: string | undefined;
  /**
   * The version of the catalogue that was in force at its admission; undefined for a job of an
   * earlier version.
   */
  readonly priceVersion?: string | undefined;
  /** The most that an answer can have used (`unpackedBoundsOf`). */
  readonly usageMax?: readonly number[] | undefined;
  readonly isStreamed: boolean;
  /** When the ingress received the request, in epoch milliseconds. */
  readonly receivedAt: number;
  /** The mailbox of the ingress. */
  readonly owner: string;
  /** Undefined if the ingress does not trace. */
  readonly trace: TraceContext | undefined;
}

/** A call of an upstream. All of its events carry the same object. */
export interface CallInfo {
  /** Counted from 1 within the attempt. */
  readonly number: number;
  readonly upstream: string;
  /** The upstream and its name of the model. */
  readonly target: string;
  /** The model's name at the upstream, which `target` may have as `*`. */
  readonly targetModel: string;
  /** The catalogue's id of the model that this target serves: the requested one, or a fallback. */
  readonly model: string;
  /** The name of the credential; undefined for an upstream without one. */
  readonly credential: string | undefined;
  /** Whether it goes where its session is expected; undefined for a request without a session. */
  readonly affinity?: "kept" | "moved" | undefined;
  /** The caller already has a part of the answer, and this call resumes it. */
  readonly resumes: boolean;
  /** Below that of the attempt. */
  readonly trace: TraceContext | undefined;
}

/** The outcome of a call, for operators. */
export interface CallDiagnosis {
  /** Undefined when no response arrived. */
  status?: number;
  /** The upstream's own id of the request. */
  requestId?: string;
  /** A transport error code, a timeout, or a few words on why the answer is unusable. */
  cause?: string;
  /** Events of the stream that could not be read; undefined for none. */
  malformedEvents?: number;
}

/**
 * `done` and `failed`: the owner has the whole response. `dropped`: handed back, or lost with the
 * link to the owner.
 */
type AttemptOutcome = "done" | "failed" | "cancelled" | "dropped";

/**
 * `taken` comes first and `ended` last, each once for every attempt. In between, `settled` occurs
 * at most once: not for a dropped attempt. Each `upstreamCallStarted` is followed by one
 * `upstreamCallFailed` or one `upstreamCallEnded`, before the next call starts. A cancelled attempt
 * is settled before its call ends.
 */
export interface WorkerEvents {
  /** The worker took the attempt from its queue. */
  taken: { attempt: AttemptInfo; queueWaitMs: number };
  /** The owner bound the attempt to this worker or gave it up: its job leaves the queue. */
  dispatched: { attempt: AttemptInfo };
  upstreamCallStarted: { attempt: AttemptInfo; call: CallInfo };
  /** The first content of an answer of which the caller has nothing so far. */
  firstContent: { attempt: AttemptInfo; call: CallInfo; sinceCallMs: number };
  /** More of an answer arrived. Hot: the same object each time, so read it at once. */
  chunk: { attempt: AttemptInfo; call: CallInfo; gapMs: number };
  /** The call failed; the attempt may continue. */
  upstreamCallFailed: {
    attempt: AttemptInfo;
    call: CallInfo;
    durationMs: number;
    diagnosis: CallDiagnosis;
    failure: Failure;
    /**
     * The upstream's message, without secrets and addresses. It may quote the request if the fault
     * is `unclear`.
     */
    reason: string | undefined;
    /** The same target is called again with this change of the request. */
    repair?: Repair | undefined;
  };
  /**
   * A failed call opened the circuit breaker of its target, for so long, or a call closed it; the
   * worker whose call it was says so.
   */
  circuitBreakerOpened: { target: string; openMs: number };
  circuitBreakerClosed: { target: string };
  /** The target answered a repaired request, so later ones have these repairs at once. */
  repairsLearned: { attempt: AttemptInfo; call: CallInfo; repairs: readonly Repair[] };
  /** The answer is complete, or nobody waits for it any more. */
  upstreamCallEnded: {
    attempt: AttemptInfo;
    call: CallInfo;
    durationMs: number;
    diagnosis: CallDiagnosis;
    isComplete: boolean;
    usage: Usage | undefined;
    /** Why the model stopped, if that is known. */
    finish: Finish | undefined;
  };
  /**
   * The attempt counts: the owner has the whole answer or its failure (`done`), or the caller left
   * (`cancelled`). Its objects do not change afterwards.
   */
  settled: {
    attempt: AttemptInfo;
    outcome: "done" | "cancelled";
    /** The model that answered last. */
    model: string;
    /** Where its answer, or the last failure, came from; undefined if no upstream was called. */
    source: Source | undefined;
    upstreamRequestId: string | undefined;
    /** Bytes of the request; 0 if it was not read. */
    bodyBytes: number;
    /** The upstream's count; an estimate if the caller left before that. */
    usage: Usage | undefined;
    failure: Failure | undefined;
    /** The ingress has vanished, or cannot be reached: it may not have recorded the usage. */
    isOrphaned: boolean;
  };
  /**
   * The ingress seems to be gone while the attempt runs or waits to be confirmed, with its state so
   * far; at most once, before `settled`.
   */
  witnessed: WorkerEvents["settled"];
  /** The worker forgets the attempt; its slot is free. */
  ended: {
    attempt: AttemptInfo;
    outcome: AttemptOutcome;
    /** The model and the upstream of the last call. */
    model: string;
    upstream: string | undefined;
    /** The upstream's count. */
    usage: Usage | undefined;
    failure: Failure | undefined;
    /** An error in the gateway's own code, if one ended the attempt. */
    fault: unknown;
    /** The counts of the last call; `malformedEvents` of all calls. */
    diagnosis: CallDiagnosis;
  };
}
