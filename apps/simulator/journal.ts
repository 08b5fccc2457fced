/** What was asked of the simulator and how it ended, for tests to look at: a bounded memory and a count of the answers under way. */
import type { IncomingHttpHeaders } from "node:http";

/** How many requests are remembered; the oldest go first. */
const journalEntriesMax = 1_000;

export interface JournalEntry {
  /** As asked for, with its settings; empty if the request named none. */
  model: string;
  /** The header x-simulate-id. */
  id: string | undefined;
  /** When the whole request had arrived, in ms since 1970. */
  at: number;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  bodyBytes: number;
  /** Hex. */
  bodySha256: string;
  /** 0 if no head was sent. */
  status: number;
  /** `completed` is an answer that was sent whole, an error too; `fault` one that a setting spoilt. */
  outcome: "running" | "completed" | "client-closed" | "fault";
  /** In ms since 1970. */
  closedAt: number | undefined;
  /** Events with a token that were written; what only opens or closes a stream is not counted. */
  chunksSent: number;
}

export interface Journal {
  /** A request whose answer begins; `close` must be called once. */
  open(entry: Omit<JournalEntry, "status" | "outcome" | "closedAt" | "chunksSent">): JournalEntry;
  close(entry: JournalEntry, outcome: Exclude<JournalEntry["outcome"], "running">): void;
  /** The remembered requests, oldest first, with no credential but its last four characters. */
  list(filter: { model?: string; id?: string }): JournalEntry[];
  /** Forgets all requests; what is under way stays counted. */
  reset(): void;
  active(): number;
  /** Settles when no answer is under way. */
  idle(): Promise<void>;
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

export function createJournal(): Journal {
  const ring: (JournalEntry | undefined)[] = new Array(journalEntriesMax).fill(undefined);
  let opened = 0;
  let active = 0;
  let waiting: (() => void)[] = [];
  return {
    open(request) {
      const entry: JournalEntry = { ...request, status: 0, outcome: "running", closedAt: undefined, chunksSent: 0 };
      ring[opened++ % journalEntriesMax] = entry;
      active++;
      return entry;
    },
    close(entry, outcome) {
      if (entry.outcome !== "running") return;
      entry.outcome = outcome;
      entry.closedAt = Date.now();
      active--;
      if (active > 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    list({ model, id }) {
      const start = opened % journalEntriesMax;
      return [...ring.slice(start), ...ring.slice(0, start)]
        .filter((entry) => entry !== undefined)
        .filter((entry) => (model === undefined || entry.model === model) && (id === undefined || entry.id === id))
        .map(withoutSecrets);
    },
    reset() {
      ring.fill(undefined);
      opened = 0;
    },
    active: () => active,
    idle: () => (active === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  };
}
