/** What is measured: something that answers callers on some addresses and consists of processes. */

export interface System {
  name: string;
  /** What a reader of the tables must know of it. */
  version: string;
  /** Where callers may go; they share themselves among them. */
  urls: string[];
  /** What each request must bear. */
  headers: Record<string, string>;
  /** All that it consists of, by what each is; processes that these start count too. */
  processes: { name: string; pid: number }[];
  stop(): Promise<void>;
}

/** A system that this machine can't run, and what would change that. */
export interface Absent {
  name: string;
  absent: string;
}

export const pidsOf = (system: System): number[] => system.processes.map(({ pid }) => pid);
export const isPresent = (system: System | Absent): system is System => !("absent" in system);
