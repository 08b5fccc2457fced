/**
 * The generations of a queue that no worker has taken yet. Usually one takes each within
 * milliseconds, and nothing is sent to Redis. If one waits for longer, the workers are full, frozen
 * or gone, or one of them died with the queue's marker: then all workers of the queue are woken,
 * also those in reserve.
 */
import { systemClock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { wakeMs, wakeMsMax } from "../bounds.ts";
import type { Queued } from "../ports.ts";

export class UntakenGenerations {
  readonly #wakeWorkers: () => Promise<boolean>;
  /** By id, in the order in which they were added. */
  readonly #untaken = new LiveMap<string, { queued: Queued; addedAt: number }>();
  #timer: NodeJS.Timeout | undefined;
  #wokenAt = Number.NEGATIVE_INFINITY;
  /** How long those that have waited through a call for the workers wait for the next one. */
  #repeatMs = wakeMs;
  #isClosed = false;

  /** `wakeWorkers` resolves to whether jobs wait on the queue. */
  constructor(wakeWorkers: () => Promise<boolean>) {
    this.#wakeWorkers = wakeWorkers;
  }

  add(queued: Queued): void {
    this.#untaken.set(queued.id, { queued, addedAt: systemClock.now() });
    if (this.#timer === undefined) this.#checkLater();
  }

  remove(queued: Queued): void {
    this.#untaken.delete(queued.id);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #checkLater(): void {
    this.#timer = undefined;
    const oldest = this.#oldestAt();
    if (oldest === undefined || this.#isClosed) return;
    const dueAt = oldest <= this.#wokenAt ? this.#wokenAt + this.#repeatMs : oldest + wakeMs;
    this.#timer = setTimeout(() => void this.#check(), Math.max(1, dueAt - systemClock.now())).unref();
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    const now = systemClock.now();
    const oldest = this.#oldestAt() ?? now;
    if (now - oldest >= wakeMs) {
      this.#repeatMs = oldest <= this.#wokenAt ? Math.min(2 * this.#repeatMs, wakeMsMax) : wakeMs;
      this.#wokenAt = now;
      // If none waits, workers took them, and their reports are on the way, or nobody wants them.
      if (!(await this.#wakeWorkers().catch(() => true))) this.#forget(now - wakeMs);
    }
    this.#checkLater();
  }

  #oldestAt(): number | undefined {
    return this.#untaken.values().next().value?.addedAt;
  }

  /** Forgets those that were added before. One without a job is not on the queue yet. */
  #forget(before: number): void {
    for (const { queued, addedAt } of this.#untaken.values()) {
      if (addedAt > before) return;
      if (queued.job !== undefined) this.remove(queued);
    }
  }
}
