/** The time limits of a call. */
import type { UpstreamTimeouts } from "#catalogue/catalogue.ts";

/** The progress of a call; times in milliseconds of one clock. */
export interface CallProgress {
  readonly timeouts: UpstreamTimeouts;
  /** The caller is sent events while the upstream produces them. */
  readonly streams: boolean;
  /** Once it has begun, its ends are up to the caller and the upstream, and silence is normal. */
  readonly isSession: boolean;
  readonly startedAt: number;
  /** When bytes last arrived, or the caller last read some. */
  readonly progressedAt: number;
  /** The response's status and headers arrived. */
  readonly hasHead: boolean;
  /** Content arrived, whether or not the caller gets it yet. */
  readonly hasContent: boolean;
}

/** All calls of an attempt together have the total timeout of the current one. */
export const isOutOfTime = ({ totalTimeoutMs }: UpstreamTimeouts, firstCallAt: number, now: number): boolean =>
  now - firstCallAt > totalTimeoutMs;

/**
 * The exceeded limit, as a predicate for the caller's message; undefined if none is. Bytes without content, such as keep-alives, do not extend
 * `firstContentTimeoutMs`. `hasAlternative`: another target could be called instead.
 */
export function overdueOf(
  call: CallProgress,
  firstCallAt: number,
  hasAlternative: boolean,
  now: number,
): string | undefined {
  const { timeouts, streams, isSession, startedAt, progressedAt, hasHead, hasContent } = call;
  if (isSession && hasContent) return undefined;
  if (isOutOfTime(timeouts, firstCallAt, now)) return "did not complete its answer in time";
  const silentMs = now - progressedAt;
  if (hasContent) return silentMs > timeouts.betweenTokensTimeoutMs ? "fell silent" : undefined;
  const callMs = now - startedAt;
  if (callMs > timeouts.firstContentTimeoutMs) {
    // The caller sees an answer that is not streamed only when it is complete, so only another target is a reason to abandon this one.
    return streams || hasAlternative ? "did not begin to answer in time" : undefined;
  }
  if (!streams) return undefined;
  if (!hasHead) return callMs > timeouts.firstByteTimeoutMs ? "did not begin to answer in time" : undefined;
  return silentMs > timeouts.firstTokenTimeoutMs ? "fell silent" : undefined;
}
