/**
 * A bounded resource that all API keys share, such as bytes or connections, with a fair share for
 * each key (`fair-share.ts`).
 */
import { isFairShare, largestShareOf } from "#relay/fair-share.ts";
import { LiveMap } from "#service/live-map.ts";

/** A smaller capacity is not divided: it is first come, first served. */
const sharedFrom = 6;
/** Large claims leave this part of a capacity to small ones. */
const smallPart = 8;

/**
 * Why a claim gets no more: its key holds more than an equal part (`key`), or too little is left
 * (`ingress`).
 */
export type Shortage = "key" | "ingress";

/** Pure. Amounts are whole numbers. */
export class Capacity {
  max: number;
  /** A claim above this amount is large. */
  readonly #smallMax: number;
  readonly #own: number;
  readonly #amounts = new LiveMap<string, number>();
  #used = 0;

  /** `own`: what every key may hold although the capacity is used up, until twice `max` is used. */
  constructor(max: number, { smallMax = Number.POSITIVE_INFINITY, own = 0 }: { smallMax?: number; own?: number } = {}) {
    this.max = max;
    this.#smallMax = smallMax;
    this.#own = own;
  }

  get used(): number {
    return this.#used;
  }

  /** How many keys hold a part. */
  get keys(): number {
    return this.#amounts.size;
  }

  /** How much this key holds. */
  amountOf(key: string): number {
    return this.#amounts.get(key) ?? 0;
  }

  /** A new claim of this key; it holds nothing yet. */
  claim(key: string): Claim {
    return new Claim(this, key);
  }

  /**
   * For claims: why this key can't take `more` for a claim that then holds `total`; undefined when
   * it can.
   */
  shortageOf(key: string, more: number, total: number): Shortage | undefined {
    const free = freeOf(this.max, this.#smallMax, total) - this.#used - more;
    const keyTotal = (this.#amounts.get(key) ?? 0) + more;
    if (keyTotal <= this.#own && this.#used + more <= 2 * this.max) return undefined;
    if (this.max < sharedFrom) return free >= 0 ? undefined : "ingress";
    if (isFairShare(keyTotal, free)) return undefined;
    const keys = this.#amounts.size + (keyTotal === more ? 1 : 0);
    return keyTotal > this.max / Math.max(2, keys) ? "key" : "ingress";
  }

  /** For claims. */
  change(key: string, by: number): void {
    const keyTotal = (this.#amounts.get(key) ?? 0) + by;
    if (keyTotal === 0) this.#amounts.delete(key);
    else this.#amounts.set(key, keyTotal);
    this.#used += by;
  }
}

/** The largest claim that an empty capacity can serve. */
export function largestClaimOf(max: number, smallMax: number): number {
  const free = freeOf(max, smallMax, max);
  return max < sharedFrom ? free : largestShareOf(free);
}

const freeOf = (max: number, smallMax: number, total: number): number =>
  total > smallMax ? max - Math.floor(max / smallPart) : max;

/**
 * The part of a capacity that one request or connection holds. It is released once, whatever ends
 * the claim first.
 */
export class Claim {
  readonly #capacity: Capacity;
  readonly #key: string;
  #amount = 0;
  #works = 0;
  #ended = false;

  constructor(capacity: Capacity, key: string) {
    this.#capacity = capacity;
    this.#key = key;
  }

  get amount(): number {
    return this.#amount;
  }

  /** Why it can't hold this amount; undefined when it can. */
  shortageFor(amount: number): Shortage | undefined {
    return this.#ended || amount <= this.#amount
      ? undefined
      : this.#capacity.shortageOf(this.#key, amount - this.#amount, amount);
  }

  /**
   * Changes what it holds to this amount. When it can't, it returns why and keeps what it held. A
   * claim that has ended holds nothing.
   */
  hold(amount: number): Shortage | undefined {
    const shortage = this.shortageFor(amount);
    if (shortage === undefined) this.force(amount);
    return shortage;
  }

  /** Changes what it holds to this amount, even beyond the capacity. */
  force(amount: number): void {
    if (this.#ended || amount === this.#amount) return;
    this.#capacity.change(this.#key, amount - this.#amount);
    this.#amount = amount;
  }

  /** Moves all that it holds to a new claim. */
  move(): Claim {
    const moved = new Claim(this.#capacity, this.#key);
    moved.#amount = this.#amount;
    this.#amount = 0;
    return moved;
  }

  /** Keeps what it holds until this work is done, even when the claim ends before. */
  during<Result>(work: Promise<Result>): Promise<Result> {
    this.#works++;
    return work.finally(() => {
      this.#works--;
      if (this.#ended) this.end();
    });
  }

  /** Releases everything. May be called any number of times. */
  end(): void {
    this.#ended = true;
    if (this.#works > 0 || this.#amount === 0) return;
    this.#capacity.change(this.#key, -this.#amount);
    this.#amount = 0;
  }
}
