/**
 * The generations of a queue that no worker has taken yet. Usually one takes each within
 * milliseconds, and nothing is sent to Redis. If one waits for longer, the workers are full, frozen
 * or gone, or one of them died with the queue's marker: then all workers of the queue are woken,
 * also those in reserve.
 */
import { wakeMs, wakeMsMax } from "../bounds.ts";
import type { Queued } from "../ports.ts";

export class UntakenGenerations {
  readonly #wakeWorkers: () => Promise<boolean>;
  /** In order of `add`, each with its number. */
  readonly #numbers = new Map<Queued, number>();
  #added = 0;
  #timer: NodeJS.Timeout | undefined;
  #delayMs = wakeMs;
  #isClosed = false;

  /** `wakeWorkers` resolves to whether jobs wait on the queue. */
  constructor(wakeWorkers: () => Promise<boolean>) {
    this.#wakeWorkers = wakeWorkers;
  }

  add(queued: Queued): void {
    this.#numbers.set(queued, ++this.#added);
    this.#checkLater();
  }

  remove(queued: Queued): void {
    this.#numbers.delete(queued);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #checkLater(): void {
    if (this.#timer !== undefined || this.#isClosed || this.#numbers.size === 0) return;
    const added = this.#added;
    this.#timer = setTimeout(() => void this.#check(added), this.#delayMs).unref();
  }

  /** The numbers up to `added` have waited for at least `wakeMs`. Never rejects. */
  async #check(added: number): Promise<void> {
    const [oldest = Number.POSITIVE_INFINITY] = this.#numbers.values();
    if (oldest > added) this.#delayMs = wakeMs;
    else if (await this.#wakeWorkers().catch(() => true)) this.#delayMs = Math.min(2 * this.#delayMs, wakeMsMax);
    else {
      // Workers took them, and their reports are on the way, or their owners gave them up.
      this.#forget(added);
      this.#delayMs = wakeMs;
    }
    this.#timer = undefined;
    this.#checkLater();
  }

  #forget(added: number): void {
    for (const [queued, number] of this.#numbers) {
      if (number > added) return;
      // One without a job is not on the queue yet.
      if (queued.job !== undefined) this.#numbers.delete(queued);
    }
  }
}
