/** The upstream's output according to its own journal, collected before it forgets. */
import { setTimeout as delay } from "node:timers/promises";

interface Entry {
  method: string;
  path: string;
  bodySha256: string;
  at: number;
  status: number;
  outcome: "running" | "completed" | "client-closed" | "fault";
  chunksSent: number;
}

export interface UpstreamJournal {
  /**
   * Answers that were sent whole, with status 200, by the request id that the upstream gave them:
   * their numbers of tokens.
   */
  completed: ReadonlyMap<string, readonly number[]>;
  /** All requests. */
  requests: number;
  running(): Promise<number>;
  stop(): Promise<void>;
}

const everyMs = 2_000;
/** Less than the upstream remembers. */
const perReadingMax = 900;

/** Throws when the upstream got more requests between two readings than it remembers. */
export function followJournal(simulatorUrl: string): UpstreamJournal {
  const completed = new Map<string, number[]>();
  const seen = new Map<string, "open" | "closed">();
  let isOver = false;
  let requests = 0;
  const read = async () => {
    const entries = (await (await fetch(`${simulatorUrl}/_simulator/requests`)).json()) as Entry[];
    let fresh = 0;
    // Two requests with one body may arrive within a millisecond.
    const twins = new Map<string, number>();
    for (const entry of entries) {
      const mark = `${entry.at} ${entry.bodySha256}`;
      const twin = twins.get(mark) ?? 0;
      twins.set(mark, twin + 1);
      const name = `${mark} ${twin}`;
      const before = seen.get(name);
      if (before === undefined) {
        fresh++;
        requests++;
      }
      if (before === "closed") continue;
      seen.set(name, entry.outcome === "running" ? "open" : "closed");
      if (entry.outcome !== "completed" || entry.status !== 200) continue;
      const id = `req_${entry.bodySha256.slice(0, 24)}`;
      completed.set(id, [...(completed.get(id) ?? []), entry.chunksSent]);
    }
    if (fresh > perReadingMax) throw new Error(`${fresh} requests between two readings of the upstream's journal`);
  };
  const reading = (async () => {
    while (!isOver) {
      await read();
      await delay(everyMs);
    }
    await read();
  })();
  // Whoever stops it learns of a failure.
  reading.catch(() => {});
  return {
    completed,
    get requests() {
      return requests;
    },
    running: async () =>
      ((await (await fetch(`${simulatorUrl}/_simulator/active`)).json()) as { active: number }).active,
    async stop() {
      isOver = true;
      await reading;
    },
  };
}
