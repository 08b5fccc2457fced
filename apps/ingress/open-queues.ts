/**
 * The BullMQ queues that this ingress has open: all that the catalogue names, or has named since
 * the start.
 */
import type { JobQueue } from "#relay/ports.ts";

export class OpenQueues {
  readonly #openQueue: (name: string, parts: number) => Promise<JobQueue>;
  readonly #onError: (error: Error) => void;
  readonly #queues = new Map<string, JobQueue>();
  readonly #opening = new Map<string, Promise<unknown>>();

  constructor(openQueue: (name: string, parts: number) => Promise<JobQueue>, onError: (error: Error) => void) {
    this.#openQueue = openQueue;
    this.#onError = onError;
  }

  /** The open queues by name. */
  get byName(): ReadonlyMap<string, JobQueue> {
    return this.#queues;
  }

  /**
   * Opens missing queues. Settles when each is open or has failed to open; never rejects. Call it
   * again to retry.
   */
  async open(queues: Iterable<[name: string, { parts: number }]>): Promise<void> {
    for (const [name, { parts }] of queues) {
      if (this.#queues.has(name) || this.#opening.has(name)) continue;
      const opening = this.#openQueue(name, parts)
        .then((queue) => this.#queues.set(name, queue), this.#onError)
        .finally(() => this.#opening.delete(name));
      this.#opening.set(name, opening);
    }
    await Promise.all(this.#opening.values());
  }

  /** A Redis that lost its data has lost the queues' settings, too. */
  restoreSettings(): void {
    for (const queue of this.#queues.values()) queue.restoreSettings().catch(this.#onError);
  }

  /** The jobs of all processes, by queue and state. Rejects when Redis is away. */
  async depths(): Promise<{ queue: string; state: string; count: number }[]> {
    const depths = await Promise.all(
      [...this.#queues.values()].map(async (queue) => {
        const { waiting, active } = await queue.depth();
        return [
          { queue: queue.name, state: "waiting", count: waiting },
          { queue: queue.name, state: "active", count: active },
        ];
      }),
    );
    return depths.flat();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }
}
