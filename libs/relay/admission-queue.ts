/**
 * The gate before a queue, one for each ingress. The queue itself is first come, first served for all ingresses; so each puts no more jobs on
 * it than keep the workers busy, and holds the rest back, where latecomers of other keys can overtake.
 *
 *     held ──▶ on the queue ──▶ taken by a worker
 *
 * How many may wait on the queue follows from what workers took lately: one, and half of what was taken in the last tenth of a second. That is
 * about 50 ms of work while the workers are busy, as long as a latecomer waits behind it; one job where work is slow; and when places are free,
 * the number grows with every job that is taken, by half in each round trip. Of short work there may be a quarter of a second more: what
 * takes the time there is the way to the workers, and the more jobs go it together, the less each costs.
 *
 * Keys share the workers' places, too. A key gets another place only while it has at most four times as many as are free, so through one ingress one key
 * takes four fifths of them at most, through two 24 of 25 (dynamic thresholds: Choudhury and Hahne 1998). Where groups of several weights are here, a key of
 * a heavier group may have as many times more. A key that has less than five places may always go: of so few, one key may take all.
 */
import { FairQueue, type Share } from "./fair-queue.ts";
import { LiveMap } from "./live-map.ts";

/** Work that is over within this time is short. */
const shortMs = 100;
/** A key may have so many times the places that are free. */
const slotsPerFree = 4;
/** Retry-After in seconds is never above this: queues change. */
const retryAfterSecondsMax = 60;

/** Something that is not over. */
interface Known {
  readonly share: Share;
  isRunning: boolean;
}

export interface AdmissionQueuePort<Item> {
  /** Can jobs be put on the queue? While they can't, nothing is let through. */
  isOpen(): boolean;
  /** Put it on the queue. */
  release(item: Item): void;
}

/** A pure state machine; times are milliseconds of one clock that never goes back. */
export class AdmissionQueue<Item extends string | number> {
  readonly #port: AdmissionQueuePort<Item>;
  readonly #held = new FairQueue<Item>();
  readonly #onQueue = new Set<Item>();
  readonly #known = new LiveMap<Item, Known>();
  /** By key: how many were let through and are not over. */
  readonly #passedOf = new LiveMap<string, number>();
  /** Of each group: its weight, and how many are not over. */
  readonly #groups = new Map<string, { weight: number; size: number }>();
  #runningSize = 0;
  /** Places that are not taken by what other ingresses run; undefined where that is not known. */
  #workerSlots: number | undefined;
  readonly #takenLately = new SlidingCount(25, 4);
  readonly #shortLately = new SlidingCount(50, 5);
  readonly #drained = new SlidingCount(1_000, 10);
  /** Since when something has waited without a break. */
  #busySince = 0;

  constructor(port: AdmissionQueuePort<Item>) {
    this.#port = port;
  }

  /** How many are held back. */
  get heldSize(): number {
    return this.#held.size;
  }

  holds(item: Item): boolean {
    return this.#held.has(item);
  }

  /** How many of those that were let through run. */
  get runningSize(): number {
    return this.#runningSize;
  }

  /** As told last. */
  get slots(): number | undefined {
    return this.#workerSlots;
  }

  /** The queue's workers have so many places that other ingresses do not take; undefined where that is not known. Call it every second or so. */
  setSlots(slots: number | undefined): void {
    this.#workerSlots = slots;
  }

  /** Lets it through to the queue, at once or when its turn comes. */
  admit(item: Item, share: Share, now: number): void {
    if (this.#held.size === 0 && this.#onQueue.size === 0) {
      this.#busySince = now;
      this.#drained.clear();
    }
    this.#known.set(item, { share, isRunning: false });
    const group = this.#groups.get(share.group);
    this.#groups.set(share.group, { weight: share.weight, size: (group?.size ?? 0) + 1 });
    if (this.#held.size === 0 && this.#hasCapacity(now) && this.#sharing(now)(share.key, share.weight))
      this.#pass(item);
    else {
      this.#held.add(item, share);
      this.pump(now);
    }
  }

  /** It is on the queue anew: another attempt of it begins, which has waited already. */
  again(item: Item): void {
    this.#onQueue.add(item);
    this.#setRunning(this.#known.get(item), false);
  }

  /** A worker took it. */
  taken(item: Item, now: number): void {
    this.#takenLately.add(now);
    this.#drained.add(now);
    this.#onQueue.delete(item);
    this.#setRunning(this.#known.get(item), true);
    this.pump(now);
  }

  /** It is not on the queue any more, though nobody told that it was taken: it is in nobody's way there. Any number of times. */
  gone(item: Item, now: number): void {
    if (this.#onQueue.delete(item)) this.pump(now);
  }

  /** It is over, wherever it was, `ranMs` after it was taken; undefined where it was not. Any number of times. */
  over(item: Item, ranMs: number | undefined, now: number): void {
    const known = this.#known.get(item);
    if (known === undefined) return;
    const { share } = known;
    this.#known.delete(item);
    const group = this.#groups.get(share.group) as { size: number };
    if (--group.size === 0) this.#groups.delete(share.group);
    if (this.#held.remove(item)) return;
    if (ranMs !== undefined && ranMs <= shortMs) this.#shortLately.add(now);
    this.#onQueue.delete(item);
    this.#setRunning(known, false);
    const left = this.#passedOfKey(share.key) - 1;
    if (left === 0) this.#passedOf.delete(share.key);
    else this.#passedOf.set(share.key, left);
    this.pump(now);
  }

  /** Lets through what may pass; call it now and then, for the queue may have been closed when there was room. */
  pump(now: number): void {
    if (this.#held.size === 0) return;
    while (this.#hasCapacity(now) && this.#port.isOpen()) {
      const item = this.#held.take(this.#sharing(now));
      if (item === undefined) return;
      this.#pass(item);
    }
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

  #hasCapacity(now: number): boolean {
    return this.#onQueue.size < 1 + (this.#takenLately.total(now) >> 1) + this.#shortLately.total(now);
  }

  /**
   * May a key have another place? Jobs on the queue take the places that are free; of short work, places come free while they are on their way. A group may have
   * as many times the places of the lightest group that is here as its weight is of that one's.
   */
  #sharing(now: number): (key: string, weight: number) => boolean {
    const slots = this.#workerSlots;
    if (slots === undefined) return () => true;
    const free = Math.max(1, slots - this.#runningSize - this.#onQueue.size + this.#shortLately.total(now));
    let lightest = Number.POSITIVE_INFINITY;
    for (const { weight } of this.#groups.values()) lightest = Math.min(lightest, weight);
    return (key, weight) => {
      return this.#passedOfKey(key) <= (slotsPerFree * free * weight) / lightest;
    };
  }

  #setRunning(known: Known | undefined, isRunning: boolean): void {
    if (known === undefined || known.isRunning === isRunning) return;
    known.isRunning = isRunning;
    this.#runningSize += isRunning ? 1 : -1;
  }

  #passedOfKey(key: string): number {
    return this.#passedOf.get(key) ?? 0;
  }

  #pass(item: Item): void {
    const { key } = (this.#known.get(item) as Known).share;
    this.#passedOf.set(key, this.#passedOfKey(key) + 1);
    this.#onQueue.add(item);
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
