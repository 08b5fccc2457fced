/**
 * The gate before a lane, one for each ingress. The lane itself is first come, first served for all ingresses; so each puts no more jobs on
 * it than keep the workers busy, and holds the rest back, where latecomers of other keys can overtake.
 *
 *     held ──▶ on the lane ──▶ taken by a worker
 *
 * How many may wait on the lane follows from what workers took lately: one, and half of what was taken in the last tenth of a second. That is
 * about 50 ms of work while the workers are busy, as long as a latecomer waits behind it; one job where work is slow; and when places are free,
 * the number grows with every job that is taken, by half in each round trip. Of short work there may be a quarter of a second more: what
 * takes the time there is the way to the workers, and the more jobs go it together, the less each costs.
 */
import { FairQueue, type Share } from "./fair-queue.ts";

/** Work that is over within this time is short. */
const shortMs = 100;
/** Retry-After in seconds is never above this: lanes change. */
const retryAfterSecondsMax = 60;

export interface LaneGatePort<Item> {
  /** Can jobs be put on the lane? While they can't, nothing is let through. */
  isOpen(): boolean;
  /** Put it on the lane. */
  release(item: Item): void;
}

/** A pure state machine; times are milliseconds of one clock that never goes back. */
export class LaneGate<Item> {
  readonly #port: LaneGatePort<Item>;
  readonly #held = new FairQueue<Item>();
  readonly #onLane = new Set<Item>();
  readonly #takenLately = new SlidingCount(25, 4);
  readonly #shortLately = new SlidingCount(50, 5);
  readonly #drained = new SlidingCount(1_000, 10);
  /** Since when something has waited without a break. */
  #busySince = 0;

  constructor(port: LaneGatePort<Item>) {
    this.#port = port;
  }

  /** How many are held back. */
  get heldSize(): number {
    return this.#held.size;
  }

  holds(item: Item): boolean {
    return this.#held.has(item);
  }

  /** Lets it through to the lane, at once or when its turn comes. */
  admit(item: Item, share: Share, now: number): void {
    if (this.#held.size === 0 && this.#onLane.size === 0) {
      this.#busySince = now;
      this.#drained.clear();
    }
    if (this.#held.size === 0 && this.#hasRoom(now)) this.#pass(item);
    else this.#held.add(item, share);
  }

  /** It is on the lane anew: another attempt of it begins, which has waited already. */
  again(item: Item): void {
    this.#onLane.add(item);
  }

  /** A worker took it. */
  taken(item: Item, now: number): void {
    this.#takenLately.add(now);
    this.#drained.add(now);
    this.#onLane.delete(item);
    this.pump(now);
  }

  /** The work of one that was taken is over, so long after that. */
  finished(tookMs: number, now: number): void {
    if (tookMs > shortMs) return;
    this.#shortLately.add(now);
    this.pump(now);
  }

  /** It does not wait any more, or not on the lane: left, failed, or found to be in nobody's way. Any number of times. */
  gone(item: Item, now: number): void {
    if (this.#held.remove(item)) return;
    if (this.#onLane.delete(item)) this.pump(now);
  }

  /** Lets through what may pass; call it now and then, for the lane may have been closed when there was room. */
  pump(now: number): void {
    while (this.#held.size > 0 && this.#hasRoom(now) && this.#port.isOpen()) this.#pass(this.#held.take() as Item);
  }

  /**
   * When there should be room again for another one behind so many that wait: whole seconds, from 1 to 60, by how many were taken in the last
   * ten seconds of those that something waited in.
   */
  retryAfterSeconds(waiting: number, now: number): number {
    const observedMs = Math.min(Math.max(now - this.#busySince, 1_000), this.#drained.spanMs);
    const seconds = (waiting * observedMs) / 1_000 / (this.#drained.total(now) + 1);
    return Math.min(Math.max(Math.ceil(seconds), 1), retryAfterSecondsMax);
  }

  #hasRoom(now: number): boolean {
    return this.#onLane.size < 1 + (this.#takenLately.total(now) >> 1) + this.#shortLately.total(now);
  }

  #pass(item: Item): void {
    this.#onLane.add(item);
    this.#port.release(item);
  }
}

/** Counts what happened in the last while, to within one slot of it. */
class SlidingCount {
  readonly spanMs: number;
  readonly #slotMs: number;
  readonly #slots: number[];
  #slot = 0;
  #total = 0;

  constructor(slotMs: number, slots: number) {
    this.spanMs = slotMs * slots;
    this.#slotMs = slotMs;
    this.#slots = new Array<number>(slots).fill(0);
  }

  add(now: number): void {
    this.#advance(now);
    this.#slots[this.#slot % this.#slots.length] = (this.#slots[this.#slot % this.#slots.length] as number) + 1;
    this.#total++;
  }

  total(now: number): number {
    this.#advance(now);
    return this.#total;
  }

  clear(): void {
    if (this.#total === 0) return;
    this.#slots.fill(0);
    this.#total = 0;
  }

  #advance(now: number): void {
    const slot = Math.floor(now / this.#slotMs);
    if (slot - this.#slot >= this.#slots.length) this.clear();
    else
      for (let passed = this.#slot + 1; passed <= slot; passed++) {
        this.#total -= this.#slots[passed % this.#slots.length] as number;
        this.#slots[passed % this.#slots.length] = 0;
      }
    this.#slot = slot;
  }
}
