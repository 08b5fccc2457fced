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
  /**
   * Resolves when everything is done that follows the answers so far: every usage record is in the
   * ledger. Absent for a system without a ledger.
   */
  caughtUp?(): Promise<void>;
  stop(): Promise<void>;
}

/** A system that this machine cannot run, and how to enable it. */
export interface Absent {
  name: string;
  absent: string;
}

export const pidsOf = (system: System): number[] => system.processes.map(({ pid }) => pid);
export const isPresent = (system: System | Absent): system is System => !("absent" in system);
