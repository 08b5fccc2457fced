/** The place of a waiting request in its queue, as its caller is told it. */
import type { QueuePlace } from "#relay/admission-queue.ts";

/** Whole seconds; undefined while the wait is unknown. */
export const secondsOf = ({ seconds }: QueuePlace): { from: number; to: number } | undefined =>
  seconds && { from: Math.floor(seconds.from), to: Math.ceil(seconds.to) };

/** Counted from 1: the next one to be served. */
export const positionOf = ({ ahead }: QueuePlace): number => ahead + 1;

/** Such as `3-5`; undefined while the wait is unknown. */
function rangeOf(place: QueuePlace): string | undefined {
  const seconds = secondsOf(place);
  return seconds && `${seconds.from}-${seconds.to}`;
}

export function placeHeadersOf(place: QueuePlace): Record<string, string> {
  const range = rangeOf(place);
  return {
    "x-sluice-queue-position": String(positionOf(place)),
    ...(range !== undefined && { "x-sluice-queue-seconds": range }),
  };
}

export const placeTextOf = (place: QueuePlace): string =>
  `queue position=${positionOf(place)} seconds=${rangeOf(place) ?? "unknown"}`;
