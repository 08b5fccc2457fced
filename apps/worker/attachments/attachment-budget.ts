/**
 * The bytes of fetched images and documents that one worker holds at once. Who needs more than there is waits in line and holds nothing meanwhile, so that no two
 * requests wait for each other. Keys take turns, and one key never holds more than half while it holds anything at all.
 */

import { BlockPool } from "./base64.ts";
import { Pace } from "./pace.ts";

/** Bytes that a request may hold, until it releases them. */
export class Grant {
  readonly key: string;
  bytes = 0;
  readonly #budget: AttachmentBudget;

  constructor(budget: AttachmentBudget, key: string) {
    this.#budget = budget;
    this.key = key;
  }

  /** Makes it this large if that is possible at once and nobody is waiting for the same bytes. */
  tryResize(bytes: number): boolean {
    return this.#budget.resize(this, bytes);
  }

  release(): void {
    this.#budget.resize(this, 0);
  }
}

interface Waiter {
  grant: Grant;
  bytes: number;
  granted(): void;
}

export class AttachmentBudget {
  readonly bytesMax: number;
  /** Its blocks, used again for as long as anything is held. */
  readonly pool = new BlockPool();
  /** Of all who fetch and send them. */
  readonly pace = new Pace();
  #heldBytes = 0;
  /** What each key holds; none that holds nothing. */
  readonly #held = new Map<string, number>();
  /** By key, in the order of their next turn; none without waiters. */
  readonly #waiting = new Map<string, Waiter[]>();

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** Waits until there are so many bytes, at most `bytesMax`, for this key. Rejects with the signal's reason once it is aborted. */
  async acquire(key: string, bytes: number, signal: AbortSignal): Promise<Grant> {
    signal.throwIfAborted();
    const grant = new Grant(this, key);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { grant, bytes, granted: resolve };
    const waiters = this.#waiting.get(key);
    if (waiters === undefined) this.#waiting.set(key, [waiter]);
    else waiters.push(waiter);
    const leave = () => {
      this.#remove(waiter);
      reject(signal.reason);
      this.#serve();
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#serve();
    try {
      await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
    return grant;
  }

  resize(grant: Grant, bytes: number): boolean {
    const more = bytes - grant.bytes;
    if (more > 0 && (this.#heldBytes + more > this.bytesMax || !this.#isInShare(grant.key, more) || this.#isWaitedFor))
      return false;
    this.#give(grant, more);
    if (more < 0) this.#serve();
    return true;
  }

  /** The next in turn gets its bytes before all that come after it, however little those need. */
  #serve(): void {
    for (
      let next = this.#next();
      next !== undefined && this.#heldBytes + next.bytes <= this.bytesMax;
      next = this.#next()
    ) {
      const { key } = next.grant;
      const others = this.#waiting.get(key)?.slice(1) ?? [];
      this.#waiting.delete(key);
      if (others.length > 0) this.#waiting.set(key, others);
      this.#give(next.grant, next.bytes);
      next.granted();
    }
  }

  /** A key that has its share has no turn. */
  #next(): Waiter | undefined {
    for (const [key, [first]] of this.#waiting)
      if (first !== undefined && this.#isInShare(key, first.bytes)) return first;
    return undefined;
  }

  get #isWaitedFor(): boolean {
    return this.#next() !== undefined;
  }

  #isInShare(key: string, more: number): boolean {
    const held = this.#held.get(key) ?? 0;
    return held === 0 || held + more <= this.bytesMax / 2;
  }

  #give(grant: Grant, more: number): void {
    grant.bytes += more;
    this.#heldBytes += more;
    const held = (this.#held.get(grant.key) ?? 0) + more;
    if (held === 0) this.#held.delete(grant.key);
    else this.#held.set(grant.key, held);
    if (this.#heldBytes === 0) this.pool.clear();
  }

  #remove(waiter: Waiter): void {
    const { key } = waiter.grant;
    const others = (this.#waiting.get(key) ?? []).filter((other) => other !== waiter);
    if (others.length === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, others);
  }
}
