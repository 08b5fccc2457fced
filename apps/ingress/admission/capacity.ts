/**
 * A bounded resource that all API keys share, such as bytes or connections, with a fair share for each key. A key may take more only while it then holds at
 * most four times what is left free (Choudhury and Hahne, "Dynamic queue length thresholds", 1998). One key alone gets at most 4/5, two get 4/9 each, and so
 * on: something is always left for the next key, and nothing is ever taken away from one.
 */
import { LiveMap } from "#relay/live-map.ts";

const timesFree = 4;
/** A smaller capacity can't be divided: it is first come, first served. */
const sharedFrom = 6;
/** Large claims leave this part of a capacity to small ones. */
const smallPart = 8;

/** Why a claim gets no more: its `key` holds more than an equal part, or the `ingress` has too little left. */
export type Shortage = "key" | "ingress";

/** Pure. Amounts are whole numbers. */
export class Capacity {
  max: number;
  /** A claim above this amount is large. */
  readonly #smallMax: number;
  readonly #held = new LiveMap<string, number>();
  #used = 0;

  constructor(max: number, smallMax = Number.POSITIVE_INFINITY) {
    this.max = max;
    this.#smallMax = smallMax;
  }

  get used(): number {
    return this.#used;
  }

  /** How many keys hold something. */
  get keys(): number {
    return this.#held.size;
  }

  /** A claim of this key, which holds nothing yet. */
  claim(key: string): Claim {
    return new Claim(this, key);
  }

  /** For claims: what keeps this key from taking so much more for a claim of `total`. */
  shortageOf(key: string, more: number, total: number): Shortage | undefined {
    const free = freeOf(this.max, this.#smallMax, total) - this.#used - more;
    if (this.max < sharedFrom) return free >= 0 ? undefined : "ingress";
    const held = (this.#held.get(key) ?? 0) + more;
    if (held <= timesFree * free) return undefined;
    const keys = this.#held.size + (held === more ? 1 : 0);
    return held > this.max / Math.max(2, keys) ? "key" : "ingress";
  }

  /** For claims. */
  change(key: string, by: number): void {
    const held = (this.#held.get(key) ?? 0) + by;
    if (held === 0) this.#held.delete(key);
    else this.#held.set(key, held);
    this.#used += by;
  }
}

/** The largest claim that an empty capacity admits. */
export function largestClaimOf(max: number, smallMax: number): number {
  const free = freeOf(max, smallMax, max);
  return max < sharedFrom ? free : Math.floor((free * timesFree) / (timesFree + 1));
}

const freeOf = (max: number, smallMax: number, total: number): number =>
  total > smallMax ? max - Math.floor(max / smallPart) : max;

/** What one request or connection holds of a capacity. All of it is given back once, whatever ends it first. */
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

  /** What keeps it from holding this amount. */
  shortageFor(amount: number): Shortage | undefined {
    return this.#ended || amount <= this.#amount
      ? undefined
      : this.#capacity.shortageOf(this.#key, amount - this.#amount, amount);
  }

  /** Holds this amount from now on; returns what keeps it from that, and then it holds what it held. A claim that has ended holds nothing. */
  hold(amount: number): Shortage | undefined {
    const shortage = this.shortageFor(amount);
    if (shortage === undefined) this.force(amount);
    return shortage;
  }

  /** Holds this amount from now on, even where that is more than there is. */
  force(amount: number): void {
    if (this.#ended || amount === this.#amount) return;
    this.#capacity.change(this.#key, amount - this.#amount);
    this.#amount = amount;
  }

  /** A new claim with all that this one holds. */
  move(): Claim {
    const moved = new Claim(this.#capacity, this.#key);
    moved.#amount = this.#amount;
    this.#amount = 0;
    return moved;
  }

  /** What it holds stays held until this work is done, even when the claim ends before. */
  during<Result>(work: Promise<Result>): Promise<Result> {
    this.#works++;
    return work.finally(() => {
      this.#works--;
      if (this.#ended) this.end();
    });
  }

  /** Gives all back. Any number of times. */
  end(): void {
    this.#ended = true;
    if (this.#works > 0 || this.#amount === 0) return;
    this.#capacity.change(this.#key, -this.#amount);
    this.#amount = 0;
  }
}
