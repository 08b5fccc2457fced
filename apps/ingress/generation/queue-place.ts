/** The place of a waiting request in its queue, as its caller is told it. */
import type { QueuePlace } from "#relay/admission-queue.ts";

/** Whole seconds; undefined while the wait is unknown. */
export const secondsOf = ({ seconds }: QueuePlace): { from: number; to: number } | undefined =>
  seconds && { from: Math.floor(seconds.from), to: Math.ceil(seconds.to) };

/** Counted from 1: the next one to be served. */
export const positionOf = ({ ahead }: QueuePlace): number => ahead + 1;

export function placeHeadersOf(place: QueuePlace): Record<string, string> {
  const seconds = secondsOf(place);
  return {
    "x-sluice-queue-position": String(positionOf(place)),
    ...(seconds && { "x-sluice-queue-seconds": `${seconds.from}-${seconds.to}` }),
  };
}

export function placeTextOf(place: QueuePlace): string {
  const seconds = secondsOf(place);
  return `queue position=${positionOf(place)} seconds=${seconds ? `${seconds.from}-${seconds.to}` : "unknown"}`;
}
