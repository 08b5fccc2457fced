/** The time limits of a call. */
import type { UpstreamTimeouts } from "#catalogue/catalogue.ts";
import { contentGapFactor, firstContentMsMax, quietMsMin } from "../bounds.ts";

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
  /**
   * When a part of the content last arrived, or the caller last read some. Keep-alives and empty
   * parts are none.
   */
  readonly contentAt: number;
  /** The response's status and headers arrived. */
  readonly hasHead: boolean;
  /** Content arrived, whether or not the caller gets it yet. */
  readonly hasContent: boolean;
}

/** All calls of an attempt together have the total timeout of the current one. */
export const isOutOfTime = ({ totalTimeoutMs }: UpstreamTimeouts, firstCallAt: number, now: number): boolean =>
  now - firstCallAt > totalTimeoutMs;

/**
 * The exceeded limit, as a predicate for the caller's message; undefined if none is. Bytes without
 * content, such as keep-alives, do not extend `firstContentTimeoutMs` and
 * `betweenContentTimeoutMs`. `hasAlternative`: another target could be called instead. `quietMsMax`
 * gives the limit of silence before the first content, where the catalogue sets none.
 */
export function overdueOf(
  call: CallProgress,
  firstCallAt: number,
  hasAlternative: boolean,
  quietMsMax: () => number,
  now: number,
): Overdue | undefined {
  const { timeouts, streams, isSession, startedAt, progressedAt, contentAt, hasHead, hasContent } = call;
  if (isSession && hasContent) return undefined;
  if (isOutOfTime(timeouts, firstCallAt, now)) return { says: "did not complete its answer in time" };
  const silentMs = now - progressedAt;
  if (hasContent) {
    const { betweenTokensTimeoutMs, betweenContentTimeoutMs = contentGapFactor * betweenTokensTimeoutMs } = timeouts;
    if (silentMs > betweenTokensTimeoutMs) return { says: "fell silent" };
    // Nothing of an answer that is not streamed is lost while it grows, however slowly, if no
    // target could do better.
    const isTrickle = now - contentAt > betweenContentTimeoutMs && (streams || hasAlternative);
    return isTrickle ? { says: "stopped sending content" } : undefined;
  }
  const callMs = now - startedAt;
  const { firstContentTimeoutMs: contentMs, firstByteTimeoutMs: byteMs, firstTokenTimeoutMs: tokenMs } = timeouts;
  // The caller sees an answer that is not streamed only when it is complete, so only another target
  // is a reason to abandon this one.
  if (!streams && !hasAlternative) return undefined;
  if (callMs > (contentMs ?? firstContentMsMax)) return { says: "did not begin to answer in time" };
  if (!streams) {
    if (contentMs !== undefined || silentMs <= quietMsMin.whole || silentMs <= quietMsMax()) return undefined;
    return { says: "did not begin to answer in time", isAdaptive: true };
  }
  const says = hasHead ? "fell silent" : "did not begin to answer in time";
  const setMs = hasHead ? tokenMs : byteMs;
  if (setMs !== undefined) return silentMs > setMs ? { says } : undefined;
  return silentMs > quietMsMin.streamed && silentMs > quietMsMax() ? { says, isAdaptive: true } : undefined;
}

export interface Overdue {
  says: string;
  /** The limit was not the catalogue's but followed what the target usually takes. */
  isAdaptive?: true;
}
