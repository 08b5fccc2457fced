/**
 * The memory for fetched images and documents in one worker. A request that needs more than is free
 * waits in line and reserves nothing meanwhile, so no two requests wait for each other. Keys take
 * turns. A key that has a reservation gets more only up to half of the budget.
 */
import { BlockPool } from "./base64.ts";
import { Pace } from "./pace.ts";

/** Bytes reserved for a request until it releases them. */
export class Grant {
  readonly key: string;
  bytes = 0;
  readonly #budget: AttachmentBudget;

  constructor(budget: AttachmentBudget, key: string) {
    this.#budget = budget;
    this.key = key;
  }

  /**
   * Resizes the reservation, unless the bytes are not free now or another request waits for them.
   * Returns whether it did.
   */
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
  /** The blocks are reused while anything is reserved. */
  readonly pool = new BlockPool();
  /** Shared by all requests that fetch and send attachments. */
  readonly pace = new Pace();
  #reservedBytes = 0;
  /** The reserved bytes of each key that has any. */
  readonly #byKey = new Map<string, number>();
  /** By key, in the order of the keys' next turns. Keys without waiting requests are absent. */
  readonly #waiting = new Map<string, Waiter[]>();

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /**
   * Reserves bytes, at most `bytesMax`, as soon as they are free for this key. Rejects with the
   * signal's reason once it is aborted.
   */
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
    if (
      more > 0 &&
      (this.#reservedBytes + more > this.bytesMax || !this.#isInShare(grant.key, more) || this.#isWaitedFor)
    )
      return false;
    this.#give(grant, more);
    if (more < 0) this.#serve();
    return true;
  }

  /** A later request never overtakes the next one, even if it needs less. */
  #serve(): void {
    for (
      let next = this.#next();
      next !== undefined && this.#reservedBytes + next.bytes <= this.bytesMax;
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

  /** Skips keys that have their share. */
  #next(): Waiter | undefined {
    for (const [key, [first]] of this.#waiting)
      if (first !== undefined && this.#isInShare(key, first.bytes)) return first;
    return undefined;
  }

  get #isWaitedFor(): boolean {
    return this.#next() !== undefined;
  }

  #isInShare(key: string, more: number): boolean {
    const reserved = this.#byKey.get(key) ?? 0;
    return reserved === 0 || reserved + more <= this.bytesMax / 2;
  }

  #give(grant: Grant, more: number): void {
    grant.bytes += more;
    this.#reservedBytes += more;
    const reserved = (this.#byKey.get(grant.key) ?? 0) + more;
    if (reserved === 0) this.#byKey.delete(grant.key);
    else this.#byKey.set(grant.key, reserved);
    if (this.#reservedBytes === 0) this.pool.clear();
  }

  #remove(waiter: Waiter): void {
    const { key } = waiter.grant;
    const others = (this.#waiting.get(key) ?? []).filter((other) => other !== waiter);
    if (others.length === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, others);
  }
}
