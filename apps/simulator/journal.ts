/**
 * Records requests and their outcomes for tests: a bounded list, and the number of running answers.
 */
import type { IncomingHttpHeaders } from "node:http";

/** The most recorded requests; the oldest are removed first. */
const journalEntriesMax = 1_000;

export interface JournalEntry {
  /** As requested, with its settings; empty if the request named none. */
  model: string;
  /** The header x-simulate-id. */
  id: string | undefined;
  /** When the whole request had arrived, in epoch milliseconds. */
  at: number;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  bodyBytes: number;
  /** Hex. */
  bodySha256: string;
  /** 0 if no head was sent. */
  status: number;
  /**
   * `completed`: the answer, possibly an error, was sent whole. `fault`: a setting broke it off.
   */
  outcome: "running" | "completed" | "client-closed" | "fault";
  /** Epoch milliseconds. */
  closedAt: number | undefined;
  /** Written events with a token, without those that only open or close a stream. */
  chunksSent: number;
}

const secretHeaders = ["authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"];

const reduced = (secret: string) => (secret.length > 4 ? `****${secret.slice(-4)}` : "****");

const withoutSecrets = (entry: JournalEntry): JournalEntry => {
  const headers = { ...entry.headers };
  for (const name of secretHeaders) {
    const value = headers[name];
    if (typeof value === "string")
      headers[name] = value.replace(
        /^(\w+ )?(.+)$/s,
        (_match, scheme = "", secret: string) => `${scheme}${reduced(secret)}`,
      );
  }
  return {
    ...entry,
    headers,
    path: entry.path.replace(/([?&]key=)([^&]*)/g, (_match, name: string, secret: string) => name + reduced(secret)),
  };
};

export type Journal = ReturnType<typeof createJournal>;

export function createJournal() {
  const ring: (JournalEntry | undefined)[] = new Array(journalEntriesMax).fill(undefined);
  let opened = 0;
  let active = 0;
  let waiting: (() => void)[] = [];
  return {
    /** Records a request whose answer begins; call `close` once. */
    open(request: Omit<JournalEntry, "status" | "outcome" | "closedAt" | "chunksSent">): JournalEntry {
      const entry: JournalEntry = { ...request, status: 0, outcome: "running", closedAt: undefined, chunksSent: 0 };
      ring[opened++ % journalEntriesMax] = entry;
      active++;
      return entry;
    },
    close(entry: JournalEntry, outcome: Exclude<JournalEntry["outcome"], "running">): void {
      if (entry.outcome !== "running") return;
      entry.outcome = outcome;
      entry.closedAt = Date.now();
      active--;
      if (active > 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    /** The requests, oldest first. Credentials are reduced to their last four characters. */
    list({ model, id }: { model?: string; id?: string }): JournalEntry[] {
      const start = opened % journalEntriesMax;
      return [...ring.slice(start), ...ring.slice(0, start)]
        .filter((entry) => entry !== undefined)
        .filter((entry) => (model === undefined || entry.model === model) && (id === undefined || entry.id === id))
        .map(withoutSecrets);
    },
    /** Removes all requests; running ones stay counted. */
    reset(): void {
      ring.fill(undefined);
      opened = 0;
    },
    active: () => active,
    /** Settles when no answer is running. */
    idle: (): Promise<void> => (active === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  };
}
