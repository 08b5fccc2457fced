/** A measured system: it answers callers at some addresses and consists of processes. */

export interface System {
  name: string;
  /** Its version and configuration, for readers of the tables. */
  version: string;
  /** Addresses among which callers are spread. */
  urls: string[];
  /** Headers of each request. */
  headers: Record<string, string>;
  /** All of its processes by kind; their children count too. */
  processes: { name: string; pid: number }[];
  /** Before the paths of OpenAI's API; none by default. */
  pathPrefix?: string;
  /**
   * Waits until the ledger has every usage record so far; resolves to the milliseconds that it
   * took. Absent for a system without a ledger.
   */
  caughtUp?(): Promise<number>;
  stop(): Promise<void>;
}

/** A system that this machine cannot run, and how to enable it. */
export interface Absent {
  name: string;
  absent: string;
}

export const pidsOf = (system: System): number[] => system.processes.map(({ pid }) => pid);
export const isPresent = (system: System | Absent): system is System => !("absent" in system);
