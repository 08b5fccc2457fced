/**
 * Keeps an ingress' requests before they go onto a queue. The queue itself is first come, first
 * served for all ingresses. So each ingress puts only as many jobs on it as keep the workers busy,
 * and keeps the rest here, where later requests of other keys can overtake.
 *
 *     kept here ──▶ on the queue ──▶ taken by a worker
 *
 * How many jobs may wait on the queue depends on what workers took recently: one, plus half of what
 * they took in the last tenth of a second. That is about 50 ms of work while the workers are busy,
 * and one job if work is slow. When workers have free slots, the number grows by half with each
 * round trip. Short work may have another quarter of a second on the queue: there the way to the
 * workers takes most of the time, and jobs that travel together cost less.
 *
 * Keys share the workers' slots (`fair-share.ts`). The number of slots that a key has counts before
 * it gets another slot. Through one ingress one key takes at most four fifths of the slots, through
 * two ingresses 24 of 25. A key of a heavier group may have proportionally more. A key with fewer
 * than five slots may always go, so one key may take all of very few slots.
 */
import { retryAfterSecondsMax } from "./bounds.ts";
import { FairQueue, type Share } from "./fair-queue.ts";
import { isFairShare } from "./fair-share.ts";
import { LiveMap } from "./live-map.ts";

/** Work that ends within this time is short. */
const shortMs = 100;
/** The last ones of so many count in the mean time that work takes. */
const meanOf = 32;

/** An item that is not over. */
interface AdmittedItem {
  readonly share: Share;
  isRunning: boolean;
}

/**
 * A pure state machine. Times are milliseconds of one monotonic clock. After each call that may
 * make capacity, take with `next` what may go onto the queue, until there is no more.
 */
export class AdmissionQueue<Item extends string | number> {
  /** The slots of its workers that other ingresses do not use; undefined if unknown. */
  slots: number | undefined;
  readonly #queued = new FairQueue<Item>();
  readonly #onQueue = new Set<Item>();
  readonly #items = new LiveMap<Item, AdmittedItem>();
  /** By key: how many items were released and are not over. */
  readonly #passedOf = new LiveMap<string, number>();
  /** By group: its weight, and how many items are not over. */
  readonly #groups = new Map<string, { weight: number; size: number }>();
  #runningSize = 0;
  readonly #takenLately = new SlidingCount(25, 4);
  readonly #shortLately = new SlidingCount(50, 5);
  /** Slots that became free since something has been waiting. */
  readonly #freed = new SlidingCount(1_000, 10);
  /** How long work takes; undefined before the first has ended. */
  #meanRanMs: number | undefined;
  /** Since when at least one item has been waiting. */
  #busySince = 0;

  /** How many items wait here. */
  get waitingSize(): number {
    return this.#queued.size;
  }

  holds(item: Item): boolean {
    return this.#queued.has(item);
  }

  /** How many released items are running. */
  get runningSize(): number {
    return this.#runningSize;
  }

  /** The item waits for its turn, which may come at once. */
  admit(item: Item, share: Share, now: number): void {
    if (this.#queued.size === 0 && this.#onQueue.size === 0) {
      this.#busySince = now;
      this.#freed.clear();
    }
    this.#items.set(item, { share, isRunning: false });
    const group = this.#groups.get(share.group);
    this.#groups.set(share.group, { weight: share.weight, size: (group?.size ?? 0) + 1 });
    this.#queued.add(item, share);
  }

  /** Another attempt of the item is on the queue. It does not wait here again. */
  again(item: Item): void {
    this.#onQueue.add(item);
    this.#setRunning(this.#items.get(item), { isRunning: false });
  }

  /** A worker took the item. */
  taken(item: Item, now: number): void {
    this.#takenLately.add(now);
    this.#onQueue.delete(item);
    this.#setRunning(this.#items.get(item), { isRunning: true });
  }

  /** The item left the queue without a report that a worker took it. May be called repeatedly. */
  gone(item: Item): void {
    this.#onQueue.delete(item);
  }

  /**
   * The item is over, `ranMs` after a worker took it (undefined if none did). May be called
   * repeatedly.
   */
  over(item: Item, ranMs: number | undefined, now: number): void {
    const entry = this.#items.get(item);
    if (entry === undefined) return;
    const { share } = entry;
    this.#items.delete(item);
    const group = this.#groups.get(share.group) as { size: number };
    if (--group.size === 0) this.#groups.delete(share.group);
    if (this.#queued.remove(item)) return;
    if (ranMs !== undefined) this.#freedAfter(ranMs, now);
    this.#onQueue.delete(item);
    this.#setRunning(entry, { isRunning: false });
    const left = this.#passedOfKey(share.key) - 1;
    if (left === 0) this.#passedOf.delete(share.key);
    else this.#passedOf.set(share.key, left);
  }

  /**
   * Takes the next item that may go onto the queue; undefined if none may. Call it regularly as
   * well, because capacity also grows with time.
   */
  next(now: number): Item | undefined {
    if (this.#queued.size === 0 || !this.#hasCapacity(now)) return undefined;
    const item = this.#queued.take(this.#sharing(now));
    if (item === undefined) return undefined;
    const { key } = (this.#items.get(item) as AdmittedItem).share;
    this.#passedOf.set(key, this.#passedOfKey(key) + 1);
    this.#onQueue.add(item);
    return item;
  }

  /**
   * Whole seconds, from 1 to 60, until a request behind `waiting` others should find a free slot.
   * Computed from how many slots became free in the last ten seconds, as far as something was
   * waiting; at first from the slots that there are and how long work took before.
   */
  retryAfterSeconds(waiting: number, now: number): number {
    const observedMs = Math.min(now - this.#busySince, this.#freed.spanMs);
    const expectedWeight = 1 - observedMs / this.#freed.spanMs;
    const seconds = observedMs / 1_000 + expectedWeight;
    const freed = this.#freed.total(now) + expectedWeight * this.#expectedPerSecond(waiting) + 1;
    return Math.min(Math.max(Math.ceil((waiting * seconds) / freed), 1), retryAfterSecondsMax);
  }

  /** Slots that become free in a second; `unknown` before any work has ended. */
  #expectedPerSecond(unknown: number): number {
    if (this.#meanRanMs === undefined) return unknown;
    return ((this.slots ?? this.#runningSize) * 1_000) / Math.max(this.#meanRanMs, 1);
  }

  #freedAfter(ranMs: number, now: number): void {
    this.#freed.add(now);
    if (ranMs <= shortMs) this.#shortLately.add(now);
    this.#meanRanMs ??= ranMs;
    this.#meanRanMs += (ranMs - this.#meanRanMs) / meanOf;
  }

  #hasCapacity(now: number): boolean {
    return this.#onQueue.size < 1 + (this.#takenLately.total(now) >> 1) + this.#shortLately.total(now);
  }

  /**
   * Whether a key may have another slot. Jobs on the queue occupy free slots; slots of short work
   * become free while jobs are on their way. A group's share is proportional to its weight,
   * relative to the lightest group present.
   */
  #sharing(now: number): (key: string, weight: number) => boolean {
    const { slots } = this;
    if (slots === undefined) return () => true;
    const free = Math.max(1, slots - this.#runningSize - this.#onQueue.size + this.#shortLately.total(now));
    let lightest = Number.POSITIVE_INFINITY;
    for (const { weight } of this.#groups.values()) lightest = Math.min(lightest, weight);
    return (key, weight) => isFairShare(this.#passedOfKey(key), (free * weight) / lightest);
  }

  #setRunning(entry: AdmittedItem | undefined, { isRunning }: Pick<AdmittedItem, "isRunning">): void {
    if (entry === undefined || entry.isRunning === isRunning) return;
    entry.isRunning = isRunning;
    this.#runningSize += isRunning ? 1 : -1;
  }

  #passedOfKey(key: string): number {
    return this.#passedOf.get(key) ?? 0;
  }
}

/** Counts events in a sliding window, with the precision of one of its intervals. */
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
