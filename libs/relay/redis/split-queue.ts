/**
 * A queue in several parts, each with keys of its own, so that a cluster spreads them over its
 * servers: for a queue that needs more than one core of Redis. An ingress takes the parts in turn,
 * a worker serves all of them, and those for jobs of earlier protocols. The first part has the
 * queue's own name.
 */
import { partNamesOf, readablePartsOf } from "#service/keyspace.ts";
import type { Protocols } from "#service/protocol.ts";
import type { JobState } from "../owner.ts";
import type { JobQueue, JobWorker, Queued, SplitWorker } from "../ports.ts";
import type { JobWorkerOptions, KeptSlots } from "./job-worker.ts";

/** The producer's end, for jobs of this protocol. `open` opens one part by its name. */
export async function openSplitQueue(
  name: string,
  { count, protocol }: { count: number; protocol: number },
  open: (part: string) => Promise<JobQueue>,
): Promise<JobQueue> {
  const parts = partNamesOf(name, count, protocol);
  const queues = await Promise.all(parts.map(open));
  const [first] = queues as [JobQueue];
  if (count === 1 && first.name === name) return first;
  const partOf = new WeakMap<Queued, JobQueue>();
  let turn = 0;
  return {
    name,
    parts,
    add(generation, failed) {
      const queue = queues[turn++ % count] as JobQueue;
      const queued = queue.add(generation, failed);
      partOf.set(queued, queue);
      return queued;
    },
    async remove(queued) {
      await partOf.get(queued)?.remove(queued);
    },
    async statesOf(all) {
      const states = new Map<Queued | undefined, JobState>();
      for (const queue of queues) {
        const own = all.filter((queued) => queued !== undefined && partOf.get(queued) === queue);
        if (own.length === 0) continue;
        for (const [index, state] of (await queue.statesOf(own)).entries()) states.set(own[index], state);
      }
      return all.map((queued) => states.get(queued) ?? "missing");
    },
    async depth() {
      const depths = await Promise.all(queues.map((queue) => queue.depth()));
      const sumOf = (state: "waiting" | "active") => depths.reduce((sum, depth) => sum + depth[state], 0);
      return { waiting: sumOf("waiting"), active: sumOf("active") };
    },
    restoreSettings: () => Promise.all(queues.map((queue) => queue.restoreSettings())),
    taken(queued) {
      partOf.get(queued)?.taken(queued);
    },
    setFreeSlots(slots) {
      for (const queue of queues) queue.setFreeSlots(slots / count);
    },
    async close() {
      await Promise.all(queues.map((queue) => queue.close()));
    },
  };
}

/**
 * The consumer's end, without parts at first. `open` opens one part. Its parts share the capacity.
 */
export const splitWorkerOf = (
  options: JobWorkerOptions,
  protocols: Protocols,
  open: (part: JobWorkerOptions) => Promise<JobWorker>,
): SplitWorker => new PartWorkers(options, protocols, open);

class PartWorkers implements SplitWorker {
  readonly name: string;
  readonly capacity: number;
  readonly #options: JobWorkerOptions;
  readonly #protocols: Protocols;
  readonly #open: (part: JobWorkerOptions) => Promise<JobWorker>;
  readonly #workers: JobWorker[] = [];
  readonly #kept: KeptSlots = { count: 0 };
  /** The part of the last generation that was taken. The others have the next free slot first. */
  #lastPart = "";
  #isStopped = false;

  constructor(options: JobWorkerOptions, protocols: Protocols, open: (part: JobWorkerOptions) => Promise<JobWorker>) {
    this.name = options.name;
    this.capacity = options.capacity;
    this.#options = options;
    this.#protocols = protocols;
    this.#open = open;
  }

  get usedSlots(): number {
    return this.#workers.reduce((sum, worker) => sum + worker.usedSlots, 0);
  }

  get freedSlots(): number {
    return this.#workers.reduce((sum, worker) => sum + worker.freedSlots, 0);
  }

  async openParts(parts: number): Promise<void> {
    for (const part of readablePartsOf(this.name, parts, this.#protocols)) {
      if (this.#workers.some(({ name }) => name === part)) continue;
      const worker = await this.#open(this.#partOptionsOf(part));
      if (this.#isStopped) return worker.close();
      this.#workers.push(worker);
      worker.start();
    }
  }

  start(): void {
    for (const worker of this.#workers) worker.start();
  }

  resume(): void {
    const { length } = this.#workers;
    const last = this.#workers.findIndex(({ name }) => name === this.#lastPart);
    for (let index = 1; index <= length; index++) this.#workers[(last + index) % length]?.resume();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#workers.map((worker) => worker.stop()));
  }

  async close(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  #partOptionsOf(part: string): JobWorkerOptions {
    const { freeSlots, take } = this.#options;
    return {
      ...this.#options,
      name: part,
      freeSlots: () => Math.min(freeSlots(), this.capacity - this.usedSlots),
      kept: this.#kept,
      onFree: () => this.resume(),
      take: (slot) => {
        this.#lastPart = part;
        take({ ...slot, queue: this.name });
      },
    };
  }
}
