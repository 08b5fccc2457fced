/** Counts what this ingress has served since its start, for the operators' live view. */
import type { Subscriber } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";

export interface LoadCounts {
  requests: number;
  failed: number;
  refused: number;
  chunks: number;
}

export function countLoad(): { counts: LoadCounts; subscriber: Subscriber<IngressEvents> } {
  const counts = { requests: 0, failed: 0, refused: 0, chunks: 0 };
  return {
    counts,
    subscriber: {
      ended({ outcome, waitedMs }) {
        counts.requests++;
        if (outcome === "complete" || outcome === "left") return;
        if (waitedMs === undefined) counts.refused++;
        else counts.failed++;
      },
      chunk() {
        counts.chunks++;
      },
    },
  };
}
