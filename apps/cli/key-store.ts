/** The place of the keys that `sluice keys` reads and changes: control, or without one Redis. */
import type { LimitsChange } from "#access/limits.ts";
import type { PriorityName } from "#access/priority.ts";
import type { KeyRecord } from "#access/record.ts";

/** The fields that a command sets; null removes. */
export interface KeyFields {
  name?: string;
  group?: string;
  account?: string;
  /** Epoch milliseconds. */
  expiresAt?: number | null;
  models?: string[] | null;
  origins?: string[] | null;
  addresses?: string[] | null;
  tags?: string[] | null;
  priority?: PriorityName | null;
  limits?: LimitsChange;
}

export interface NewKey {
  /** The secret, shown once. */
  key: string;
  record: KeyRecord;
}

/** Every method rejects with a CommandFault for what cannot be done. */
export interface KeyStore {
  /** `now` in epoch milliseconds. */
  create(fields: KeyFields & { name: string; group: string }, now: number): Promise<NewKey>;
  /** In the order of their creation. */
  list(): Promise<KeyRecord[]>;
  /** Undefined for an unknown id. */
  revoke(id: string): Promise<KeyRecord | undefined>;
  update(id: string, fields: KeyFields): Promise<KeyRecord>;
  /** The old key stays valid for `overlapMs`. */
  rotate(id: string, overlapMs: number): Promise<NewKey>;
  /** A line about what was done. */
  rebuild(): Promise<string>;
}
