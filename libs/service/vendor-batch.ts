/**
 * A vendor's batch of requests of one chunk. Workers put the requests of lines into Redis; control
 * has a worker submit them, and read their answers into Redis.
 */

/** The kind of these calls of a worker. */
export const vendorBatchKind = "vendor-batch";

/** The status of a line that waits for its vendor's batch. */
export const deferredStatus = 202;

/** Where the requests of a vendor's batch are sent: the same for all of them. */
export interface VendorTarget {
  upstream: string;
  /** The name of the credential; null for an upstream without one. */
  credential: string | null;
  path: string;
  /** The vendor's name of the model; OpenAI's batches have one. */
  model: string;
  /** Headers of the requests, as far as the vendor's dialect has any. */
  headers: Record<string, string>;
}

/** The field of the hash of requests with their target. */
export const vendorTargetField = "target";

export type VendorBatchCall = {
  /** Names the batch, also at its vendor. */
  name: string;
  target: VendorTarget;
} & (
  | { action: "submit" }
  /** `submittedAt` is in epoch milliseconds. */
  | { action: "find"; submittedAt: number }
  /** `places`: the requests whose answers are wanted. */
  | { action: "read"; id: string; places: readonly number[]; cancels: boolean }
  | { action: "delete"; id: string }
);

/** A `reason` is for the log: the vendor's codes, and nothing that a caller has sent. */
export type VendorBatchAnswer =
  | { kind: "submitted"; id: string }
  /** The vendor has no batch with this name. */
  | { kind: "absent" }
  /** A batch that runs may be the one with this name. */
  | { kind: "unclear" }
  /** The vendor takes no such batch. */
  | { kind: "refused"; reason: string }
  | { kind: "running" }
  /**
   * The answers to these requests are in Redis. `isWhole`: no wanted one is left at the vendor.
   * `reason`: why the vendor has not answered all.
   */
  | { kind: "ended"; places: readonly number[]; isWhole: boolean; reason?: string }
  | { kind: "deleted" }
  /** The call failed, and may have had an effect. `isOver`: only the answers cannot be read. */
  | { kind: "unknown"; reason: string; isOver?: boolean };
