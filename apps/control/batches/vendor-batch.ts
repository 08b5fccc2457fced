/** The batches of chunks at their vendors, which workers submit and read. */
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { readProcessReports, readyWorkerIn } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import {
  type VendorBatchAnswer,
  type VendorBatchCall,
  type VendorTarget,
  vendorBatchKind,
  vendorTargetField,
} from "#service/vendor-batch.ts";
import { callWorker } from "#service/worker-calls.ts";

/** The batch of a chunk at its vendor. */
export interface VendorBatch {
  name: string;
  target: VendorTarget;
  /** The lines that it has. */
  places: readonly number[];
  /** How often it was submitted; more than once only if the vendor did not have it. */
  submissions: number;
  /** When it was submitted last, in epoch milliseconds. */
  submittedAt: number;
  /** The vendor's; null while it is not known. */
  id: string | null;
  /** Its answers are stored; lines without one run one by one. */
  isOver: boolean;
  /** Readings of its answers that brought none, since one that did. */
  failedReads?: number;
  /** Runs of the chunk that ended to wait for the vendor. */
  waits: number;
  /** The last of them: it and those before it have left no objects. */
  lastWaitingRun: number;
}

/** The calls of vendors by workers. */
export interface VendorBatches {
  /** Whether an upstream of the catalogue has batches of its own. */
  arePossible(): boolean;
  /** Undefined if Redis has lost the requests. */
  targetOf(name: string): Promise<VendorTarget | undefined>;
  /** Rejects while Redis is away. */
  call(call: VendorBatchCall): Promise<VendorBatchAnswer>;
  /** How often the state at a vendor is asked for. */
  pollMs: number;
}

export const vendorBatchesOf = (
  { redis, keyspace, clock }: { redis: Redis; keyspace: Keyspace; clock: Clock },
  catalogue: () => Catalogue,
  pollMs: number,
): VendorBatches => ({
  arePossible: () =>
    catalogue()
      .upstreams.values()
      .some(({ batchApi }) => batchApi),
  async targetOf(name) {
    const text = await redis.hget(keyspace.vendorRequests(name), vendorTargetField);
    return text === null ? undefined : (JSON.parse(text) as VendorTarget);
  },
  async call(request) {
    const now = clock.epoch();
    const worker = readyWorkerIn(await readProcessReports(redis, keyspace, now), now);
    if (worker === undefined) return { kind: "unknown", reason: "no worker runs" };
    const call = { kind: vendorBatchKind, request };
    const answer = await callWorker<VendorBatchAnswer>({ redis, keyspace }, worker, call);
    return answer ?? { kind: "unknown", reason: "the worker did not answer in time" };
  },
  pollMs,
});
