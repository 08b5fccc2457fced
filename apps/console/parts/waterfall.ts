/** The phases of a request: when each began and how long it took, from the receipt on. */
import type { Answer } from "../app/call.ts";

type PhaseName = "admission" | "queue" | "worker" | "upstream" | "answer" | "end";

export interface Phase {
  name: PhaseName;
  /** Milliseconds since the receipt. */
  from: number;
  to: number;
}

type Times = Pick<Answer<"getUsage">, "queuedMs" | "dispatchedMs" | "boundMs" | "firstContentMs" | "durationMs">;

/** A phase ends where the next one begins; the last one that was reached ends with the request. */
export function phasesOf({ queuedMs, dispatchedMs, boundMs, firstContentMs, durationMs }: Times): Phase[] {
  const begins = (
    [
      ["admission", 0],
      ["queue", queuedMs],
      ["worker", dispatchedMs],
      ["upstream", boundMs],
      ["answer", firstContentMs],
    ] as const
  ).flatMap(([name, from]) => (from === null ? [] : [{ name, from }]));
  return begins.map(({ name, from }, index) => ({
    name,
    from,
    to: Math.max(from, begins[index + 1]?.from ?? durationMs),
  }));
}
