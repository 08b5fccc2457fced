/** Decides what follows from an attempt to get a line answered. */
import { deferredStatus } from "#service/vendor-batch.ts";
import { lineBreaksMax, linePauseMs, linePauseMsMax, lineSendsMax } from "../bounds.ts";
import type { UnansweredReason } from "./format.ts";
import type { LineAnswer, SendResult } from "./line-sender.ts";

/** The attempts of a line in a run of its chunk that led to no result. */
export interface LineAttempts {
  /** An upstream failed. */
  failures: number;
  /** The connection broke. */
  breaks: number;
  /** The gateway took no request of the key, or of anybody. */
  waits: number;
}

export type LineVerdict =
  /** The line's result. `stops`: no further line of the batch would be answered. */
  | { kind: "result"; answer: LineAnswer; stops?: UnansweredReason }
  /** The line waits for its vendor's batch. */
  | { kind: "deferred" }
  /** There is no answer that the batch can have. */
  | { kind: "unanswered"; reason: UnansweredReason }
  /** The line is sent again after a pause; `concerns` tells for which lines it is. */
  | { kind: keyof LineAttempts; concerns: "line" | "batch"; isBusy: boolean; pauseMs: number };

export function verdictOf(result: SendResult, { failures, breaks, waits }: LineAttempts): LineVerdict {
  const wait = (isBusy: boolean, retryAfterMs: number): LineVerdict => ({
    kind: "waits",
    concerns: "batch",
    isBusy,
    pauseMs: Math.max(retryAfterMs, pauseMsOf(waits)),
  });
  if (result === "unreachable") return wait(true, 0);
  if (result === "too_large") return { kind: "unanswered", reason: "answer_too_large" };
  if (result === "broken")
    return breaks + 1 < lineBreaksMax
      ? { kind: "breaks", concerns: "line", isBusy: true, pauseMs: pauseMsOf(breaks) }
      : { kind: "unanswered", reason: "no_answer" };
  const { status, isFinal, retryAfterMs } = result;
  if (status === deferredStatus) return { kind: "deferred" };
  if (status === 401) return { kind: "result", answer: result, stops: "invalid_key" };
  // The status of a spent budget is 402 at Anthropic.
  if ((status === 402 || status === 429) && isFinal)
    return { kind: "result", answer: result, stops: "budget_exhausted" };
  if (status < 429 || isFinal) return { kind: "result", answer: result };
  if (status === 429) return wait(false, retryAfterMs);
  if (status === 503 || status === 529) return wait(true, retryAfterMs);
  if (status >= 500 && failures + 1 < lineSendsMax)
    return { kind: "failures", concerns: "line", isBusy: false, pauseMs: Math.max(retryAfterMs, pauseMsOf(failures)) };
  return { kind: "result", answer: result };
}

/** The pause after so many attempts without one. */
export const pauseMsOf = (attempts: number): number =>
  Math.min(linePauseMsMax, linePauseMs * 2 ** Math.min(attempts, 10));
