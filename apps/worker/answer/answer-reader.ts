/**
 * The common part of all readers of responses: their interface, their steps, and the failures of
 * unusable answers.
 */

import type { WholeAnswer } from "#dialects/codec.ts";
import { type Failure, failureOf, type UpstreamError } from "#dialects/errors.ts";
import type { RelayedText } from "#dialects/neutral/continuation.ts";
import type { Finish } from "#dialects/neutral/neutral.ts";
import type { ProducedCounts } from "#dialects/neutral/produced.ts";
import { type Repair, repairOf } from "#dialects/repairs/repairs.ts";
import type { Usage } from "#dialects/usage.ts";
import type { MessagePartKind } from "#relay/session-messages.ts";
import { type SseEvent, SseEventTooLarge, type SseReader } from "#wire/sse.ts";
import { retryAfterSecondsMax } from "../bounds.ts";

/** The result of reading some bytes of a response. */
export type AnswerStep = { kind: "more"; bytes: Buffer[] } | { kind: "end"; bytes: Buffer[] } | FailedStep | LateStep;

/** The response is complete; a thread reads it. */
interface LateStep {
  kind: "late";
  bytes: Buffer[];
  step: Promise<AnswerStep>;
}

export interface FailedStep {
  kind: "failed";
  bytes: Buffer[];
  failure: Failure;
  /** The upstream's own Retry-After, however long; whole seconds. */
  retryAfterSeconds?: number;
  /** The upstream's own message, without secrets and addresses, for the operator's log. */
  reason?: string;
  /** How the request may be changed so that this upstream accepts it. */
  repair?: Repair | undefined;
}

/** A reader leaves out what its kind of answer never has: no text, no number, false. */
export interface AnswerReader {
  readonly usage?: Usage | undefined;
  /** Why the model stopped; undefined before that, and where nothing says so. */
  readonly finish?: Finish | undefined;
  /** The upstream's output so far; undefined for an answer that is not streamed. */
  readonly produced?: ProducedCounts | undefined;
  /** Bytes of the answer that are kept until more arrives. */
  readonly bufferedBytes?: number;
  /** Events that could not be read. The answer fails if one of them may have carried content. */
  readonly malformedEvents?: number;
  /** The caller's part of an answer of plain text, if it was relayed unchanged. */
  readonly relayedText?: RelayedText | undefined;
  /** Grows with each part of the content that arrives. */
  readonly parts?: number;
  /** Content for the caller was seen. */
  readonly committed?: boolean;
  /** Content arrived, whether or not the caller gets it yet; `committed` if it is left out. */
  readonly begun?: boolean;
  /** The whole answer except its terminator arrived, and nothing after it contradicts that. */
  readonly settled?: boolean;
  /** `kind` is set for a session, whose messages come whole. */
  push(chunk: Buffer, kind?: MessagePartKind): AnswerStep;
  /** The response ended. */
  end(): AnswerStep;
}

export const incomplete: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model ended its answer before it was complete.",
};
export const unreadable: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model sent an answer that is not in its format.",
};
/**
 * An answer that exceeds its bound. Another one would be as large, and the upstream is paid for
 * this one.
 */
export const tooLarge = (bytesMax: number): FailedStep => ({
  kind: "failed",
  bytes: [],
  failure: {
    code: "upstream_failed",
    message: `The upstream of this model sent more than the ${bytesMax} bytes that the answer to this request may hold.`,
    isPaid: true,
  },
});

/** Some servers and proxies answer with a success status other than 200. */
export const isAnswerStatus = (status: number): boolean =>
  status >= 200 && status <= 206 && status !== 204 && status !== 205;

/** The events of a chunk, or the failure of an event that is too large. */
export function eventsIn(reader: SseReader, chunk: Buffer, bytesMax: number): SseEvent[] | AnswerStep {
  try {
    return reader.push(chunk);
  } catch (error) {
    if (error instanceof SseEventTooLarge) return tooLarge(bytesMax);
    throw error;
  }
}

/** The failures that pass with time. A time in the words of any other is not the upstream's. */
const isTemporary = ({ code, operatorFault }: Failure) =>
  code === "rate_limited" || code === "overloaded" || operatorFault === "quota";

/** `isQuoted` is that of `failureOf`. */
export function refusedWith(
  status: number,
  error: UpstreamError,
  isQuoted: ((text: string) => boolean) | undefined,
): FailedStep {
  const failure = failureOf(status, error, isQuoted);
  const { message: reason } = error;
  const step: FailedStep = { kind: "failed", bytes: [], failure, reason, repair: repairOf(status, error) };
  return isTemporary(failure) ? waitingFor(error.retryAfterSeconds, step) : step;
}

/** The step with the time after which the upstream accepts requests again. */
export const waitingFor = (seconds: number | undefined, step: FailedStep): FailedStep =>
  seconds === undefined
    ? step
    : {
        ...step,
        retryAfterSeconds: seconds,
        failure: { ...step.failure, retryAfterSeconds: Math.min(retryAfterSecondsMax, Math.max(1, seconds)) },
      };

/**
 * Messages in an answer may quote anybody, so only an error's codes tell something about the
 * operator's account.
 */
export const failedWith = (error: UpstreamError, bytes: Buffer[] = []): FailedStep => ({
  ...refusedWith(error.status ?? 502, error, () => true),
  bytes,
});

/** The last step of a whole answer. */
export function stepOf(answer: WholeAnswer): AnswerStep {
  switch (answer.kind) {
    case "malformed":
      return { kind: "failed", bytes: [], failure: unreadable };
    case "error":
      return failedWith(answer.error);
    case "answer":
      return { kind: "end", bytes: [answer.body] };
    default:
      return answer satisfies never;
  }
}
