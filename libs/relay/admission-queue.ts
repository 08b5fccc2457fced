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
 * workers takes most of the time, and jobs that travel together cost less. Where Redis is far away,
 * jobs on their way come on top of that work, and a part of the free slots at once.
 *
 * Groups by weight, and the keys of a group, have equal parts of the tokens of about the last
 * minute, over all ingresses (`fair-queue.ts`). An item counts its input and the usual output of
 * its key from the moment when it leaves, and its real tokens from its end. At other ingresses its
 * tokens count within about a second. There, a key that is ahead of keys that wait elsewhere has
 * fewer slots.
 *
 * Keys share the workers' slots (`fair-share.ts`). The number of slots that a key has, through all
 * ingresses, counts before it gets another slot. One key takes at most four fifths of the slots. A
 * key of a heavier group may have proportionally more. A key with fewer than five slots may always
 * go unless it is ahead of others, so one key may take all of very few slots.
 *
 * Items have one of three priorities. A higher one goes first; but of every eight turns, one is for
 * the oldest item that has waited for five seconds, so nothing starves. A group may have a reserved
 * share of the slots: while it has fewer, it goes before all others. Others use the share while the
 * group has nothing that waits.
 */
import { LiveMap } from "#service/live-map.ts";
import { retryAfterSecondsMax } from "./bounds.ts";
import { FairQueue, type MayGo, type Share } from "./fair-queue.ts";
import { isFairShare } from "./fair-share.ts";
import { type KeySlots, noKeySlots } from "./key-slots.ts";

/** Work that ends within this time is short. */
const shortMs = 100;
/** The last ones of so many count in the mean time that work takes. */
const meanOf = 32;

/** A request counts at least so many tokens, so that none is free. */
const requestTokensMin = 100;
/** Tokens count half as much after this time: about those of the last minute count. */
const tokensHalfLifeMs = 60_000;
/** The last ones of so many count in the mean output of a key. */
const outputsOf = 8;

/** From the first to be served to the last. */
const priorities = [0, 1, 2] as const;
export type Priority = (typeof priorities)[number];

/** After so long an item has a turn whatever its priority, one in so many. */
const agedMs = 5_000;
const agedEvery = 8;

/**
 * Above this, jobs spend more time on their way through Redis than waiting for a worker. The way of
 * a job to a free worker and back is known from the fastest of the last half minute or minute.
 */
const farMs = 20;
const wayMsMax = 250;
const wayOfMs = 30_000;
/** The part of the free slots that may go at once where the way is long. */
const startShare = 1 / 8;
/** Work of this time may wait on the queue, by what was taken in twice the time. */
const waitingWorkMs = 50;
/** So many intervals are the precision of that window. */
const takenIntervals = 4;

/** An item's group and key, its priority, and the part of the slots that its group reserves. */
export interface AdmissionShare extends Share {
  /** 1 by default. */
  readonly priority?: Priority;
  /** From 0, the default, to 1. */
  readonly reserved?: number;
}

/** Where an item waits in the queue. */
export interface QueuePlace {
  /** How many items go before it. */
  readonly ahead: number;
  /** The expected wait from now; undefined while it is unknown. */
  readonly seconds: { readonly from: number; readonly to: number } | undefined;
}

/** The tokens of an item. */
export interface ItemTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

const noTokens: ItemTokens = { inputTokens: 0, outputTokens: 0 };

interface GroupState {
  weight: number;
  reserved: number;
  /** Its items that are not over, and those of them that were released. */
  size: number;
  passed: number;
}

/** An item that is not over. */
interface AdmittedItem {
  readonly share: AdmissionShare;
  readonly since: number;
  readonly estimate: ItemTokens;
  /** The tokens that count since it left. */
  charged: number;
  /** When it went onto the queue, if nothing else was there. */
  leftAt: number | undefined;
  isRunning: boolean;
}

/**
 * A pure state machine. Times are milliseconds of one monotonic clock. After each call that may
 * make capacity, take with `next` what may go onto the queue, until there is no more.
 */
export class AdmissionQueue<Item extends string | number> {
  /** The slots of its workers that other ingresses do not use; undefined if unknown. */
  slots: number | undefined;
  /** The slots that keys have through other ingresses, as far as is known. */
  #elsewhere: KeySlots = noKeySlots;
  /** By priority. */
  readonly #queued = priorities.map(() => new FairQueue<Item>((item) => this.#charge(item)));
  /** The mean output of keys that used tokens lately. */
  readonly #outputOf = new Map<string, number>();
  /** When the tokens were last shared. */
  #sharedAt: number | undefined;
  readonly #onQueue = new Set<Item>();
  readonly #items = new LiveMap<Item, AdmittedItem>();
  /** By key: how many items were released and are not over. */
  readonly #passedOf = new LiveMap<string, number>();
  readonly #groups = new Map<string, GroupState>();
  /** Items of groups with a reserved share that are not over. */
  #reservedSize = 0;
  /** Turns since the last one of an aged item. */
  #turns = 0;
  /** The released items that run, by priority. */
  readonly #runningOf = priorities.map(() => 0);
  #takenLately = takenWithin(0);
  readonly #fastestWay = new LeastLately(wayOfMs);
  /** How long jobs are on their way; 0 if that is not long. */
  #wayMs = 0;
  readonly #shortLately = new SlidingCount(50, 5);
  /** Slots that became free since something has been waiting. */
  readonly #freed = new SlidingCount(1_000, 10);
  /** Turns by priority. */
  readonly #turnsLately = priorities.map(() => new SlidingCount(1_000, 10));
  /** How long work takes; undefined before the first has ended. */
  #meanRanMs: number | undefined;
  /** Since when at least one item has been waiting. */
  #busySince = 0;

  /** How many items wait here. */
  get waitingSize(): number {
    let size = 0;
    for (const queue of this.#queued) size += queue.size;
    return size;
  }

  holds(item: Item): boolean {
    return this.#queued.some((queue) => queue.has(item));
  }

  /** How many released items are running. */
  get runningSize(): number {
    return this.#runningOf.reduce((sum, size) => sum + size, 0);
  }

  /**
   * The slots that keys have through this ingress, or will have once their jobs are taken, and
   * their tokens.
   */
  get keySlots(): KeySlots {
    const tokens = this.#queued.flatMap((queue, priority) => [...queue.usage()].map((used) => ({ ...used, priority })));
    return { lightest: this.#lightest, slots: new Map(this.#passedOf.entries()), tokens };
  }

  /**
   * The slots that keys have through other ingresses, and their tokens, as far as is known. Call it
   * regularly: tokens of before count less each time.
   */
  setElsewhere(elsewhere: KeySlots, now: number): void {
    this.#elsewhere = elsewhere;
    const factor = 0.5 ** ((now - (this.#sharedAt ?? now)) / tokensHalfLifeMs);
    this.#sharedAt = now;
    const keys = new Set<string>();
    for (const [priority, queue] of this.#queued.entries()) {
      queue.decay(factor);
      queue.setElsewhere(elsewhere.tokens.filter((used) => used.priority === priority));
      for (const { key } of queue.usage()) keys.add(key);
    }
    for (const key of this.#outputOf.keys()) if (!keys.has(key)) this.#outputOf.delete(key);
  }

  /** The item waits for its turn, which may come at once. */
  admit(item: Item, share: AdmissionShare, now: number, estimate: ItemTokens = noTokens): void {
    const { weight, reserved = 0, priority = 1 } = share;
    if (this.waitingSize === 0 && this.#onQueue.size === 0) {
      this.#busySince = now;
      this.#freed.clear();
    }
    this.#items.set(item, { share, since: now, estimate, charged: 0, leftAt: undefined, isRunning: false });
    const { size = 0, passed = 0 } = this.#groups.get(share.group) ?? {};
    this.#groups.set(share.group, { weight, reserved, size: size + 1, passed });
    if (reserved > 0) this.#reservedSize++;
    (this.#queued[priority] as FairQueue<Item>).add(item, share);
  }

  /** Another attempt of the item is on the queue. It does not wait here again. */
  again(item: Item): void {
    this.#onQueue.add(item);
    const entry = this.#items.get(item);
    if (entry !== undefined) entry.leftAt = undefined;
    this.#setRunning(entry, { isRunning: false });
  }

  /** A worker took the item, which has further free slots or not. */
  taken(item: Item, now: number, hasFreeSlots = false): void {
    const entry = this.#items.get(item);
    if (hasFreeSlots && entry?.leftAt !== undefined) this.#measureWay(now - entry.leftAt, now);
    this.#takenLately.add(now);
    this.#onQueue.delete(item);
    this.#setRunning(entry, { isRunning: true });
  }

  #measureWay(ms: number, now: number): void {
    const least = this.#fastestWay.add(ms, now);
    // In steps, because the count begins anew with each change.
    const wayMs = least <= farMs ? 0 : Math.min(Math.ceil(least / farMs) * farMs, wayMsMax);
    if (wayMs === this.#wayMs) return;
    this.#wayMs = wayMs;
    this.#takenLately = takenWithin(wayMs);
  }

  /** The item left the queue without a report that a worker took it. May be called repeatedly. */
  gone(item: Item): void {
    this.#onQueue.delete(item);
  }

  /**
   * The item is over, `ranMs` after a worker took it (undefined if none did), with these tokens.
   * May be called repeatedly.
   */
  over(item: Item, ranMs: number | undefined, now: number, tokens: ItemTokens = noTokens): void {
    const entry = this.#items.get(item);
    if (entry === undefined) return;
    const { share } = entry;
    this.#items.delete(item);
    const group = this.#groups.get(share.group) as GroupState;
    if (--group.size === 0) this.#groups.delete(share.group);
    if (share.reserved !== undefined && share.reserved > 0) this.#reservedSize--;
    if ((this.#queued[share.priority ?? 1] as FairQueue<Item>).remove(item)) return;
    group.passed--;
    this.#settle(entry, ranMs === undefined ? undefined : tokens);
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
    if (this.waitingSize === 0 || !this.#hasCapacity(now)) return undefined;
    const item = this.#take(now);
    if (item === undefined) return undefined;
    const entry = this.#items.get(item) as AdmittedItem;
    const { key, group, priority = 1 } = entry.share;
    entry.leftAt = this.#onQueue.size === 0 ? now : undefined;
    this.#turnsLately[priority]?.add(now);
    (this.#groups.get(group) as GroupState).passed++;
    this.#passedOf.set(key, this.#passedOfKey(key) + 1);
    this.#onQueue.add(item);
    return item;
  }

  #take(now: number): Item | undefined {
    const { slots } = this;
    const mayGoAt = this.#sharing(now);
    if (this.#reservedSize > 0 && slots !== undefined) {
      const isBelow = (name: string) => {
        const { reserved, passed } = this.#groups.get(name) as GroupState;
        return passed < reserved * slots;
      };
      for (const priority of priorities) {
        const item = this.#takeOf(priority, mayGoAt, isBelow);
        if (item !== undefined) return item;
      }
    }
    if (++this.#turns >= agedEvery) {
      const item = this.#oldestAged(now)?.take(mayGoAt(priorities.length - 1));
      if (item !== undefined) {
        this.#turns = 0;
        return item;
      }
    }
    for (const priority of priorities) {
      const item = this.#takeOf(priority, mayGoAt);
      if (item !== undefined) return item;
    }
    return undefined;
  }

  #takeOf(
    priority: Priority,
    mayGoAt: (priority: Priority) => MayGo | undefined,
    isBelow?: (group: string) => boolean,
  ): Item | undefined {
    const queue = this.#queued[priority] as FairQueue<Item>;
    return queue.size === 0 ? undefined : queue.take(mayGoAt(priority), isBelow);
  }

  /** The tokens that count for an item that leaves. */
  #charge(item: Item): number {
    const entry = this.#items.get(item) as AdmittedItem;
    const { share, estimate } = entry;
    const output = this.#outputOf.get(share.key) ?? estimate.outputTokens;
    entry.charged = Math.max(requestTokensMin, estimate.inputTokens + output);
    return entry.charged;
  }

  /** The real tokens count in place of the estimate; none if no worker took the item. */
  #settle({ share, charged }: AdmittedItem, tokens: ItemTokens | undefined): void {
    const { inputTokens, outputTokens } = tokens ?? noTokens;
    const used = tokens === undefined ? 0 : Math.max(requestTokensMin, inputTokens + outputTokens);
    if (used !== charged) (this.#queued[share.priority ?? 1] as FairQueue<Item>).charge(share, used - charged);
    if (inputTokens + outputTokens === 0) return;
    const mean = this.#outputOf.get(share.key) ?? outputTokens;
    this.#outputOf.set(share.key, mean + (outputTokens - mean) / outputsOf);
  }

  /** The queue of the oldest item, if that has waited for long enough. */
  #oldestAged(now: number): FairQueue<Item> | undefined {
    let oldestSince = now - agedMs;
    let oldest: FairQueue<Item> | undefined;
    for (const queue of this.#queued) {
      const item = queue.oldest;
      if (item === undefined) continue;
      const { since } = this.#items.get(item) as AdmittedItem;
      if (since > oldestSince) continue;
      oldestSince = since;
      oldest = queue;
    }
    return oldest;
  }

  /**
   * The time within which a further item with this share should find a slot, in nine cases of ten:
   * the number of items before it, divided by the rate at which slots become free. 0 while that is
   * unknown, and while slots are free.
   */
  waitMsOf(share: AdmissionShare, now: number): number {
    const expected = this.#expectedAt(share, this.#aheadOf(share), now);
    return expected === undefined ? 0 : expected.seconds * (1 + 1.3 * expected.spread) * 1_000;
  }

  /** Where an item waits; undefined if it does not wait here. */
  placeOf(item: Item, now: number): QueuePlace | undefined {
    const share = this.#items.get(item)?.share;
    if (share === undefined) return undefined;
    const own = (this.#queued[share.priority ?? 1] as FairQueue<Item>).ownPlaceOf(item);
    if (own === undefined) return undefined;
    const ahead = this.#aheadOf(share, own);
    const expected = this.#expectedAt(share, ahead, now);
    if (expected === undefined) return { ahead, seconds: undefined };
    const { seconds, spread } = expected;
    return { ahead, seconds: { from: seconds * (1 - spread), to: seconds * (1 + spread) } };
  }

  #aheadOf(share: AdmissionShare, own?: number): number {
    const { priority = 1 } = share;
    let ahead = this.#onQueue.size + (this.#queued[priority] as FairQueue<Item>).aheadOf(share, own);
    for (const level of priorities) if (level < priority) ahead += (this.#queued[level] as FairQueue<Item>).size;
    return ahead;
  }

  /**
   * How many turns there are for each turn of an item's own priority or a lower one, by the turns
   * of the last ten seconds: items of a higher priority that come later go before it, too.
   */
  #turnsForEach({ priority = 1 }: AdmissionShare, now: number): number {
    let [higher, all] = [0, 0];
    for (const level of priorities) {
      const turns = (this.#turnsLately[level] as SlidingCount).total(now);
      all += turns;
      if (level < priority) higher += turns;
    }
    return all === 0 ? 1 : Math.min(agedEvery, all / Math.max(1, all - higher));
  }

  /**
   * When an item with so many before it should find a slot. The time until the n-th slot of a
   * random sequence becomes free spreads by 1/sqrt(n). Undefined while the rate is unknown.
   */
  #expectedAt(share: AdmissionShare, ahead: number, now: number): { seconds: number; spread: number } | undefined {
    if (this.slots === undefined || this.#meanRanMs === undefined) return undefined;
    const count = ahead + 1 - Math.max(0, this.slots - this.runningSize);
    return count <= 0
      ? { seconds: 0, spread: 0 }
      : { seconds: this.#secondsUntil(count, now) * this.#turnsForEach(share, now), spread: 1 / Math.sqrt(count) };
  }

  /**
   * Whole seconds, from 1 to 60, until a request behind `waiting` others should find a free slot.
   * Computed from how many slots became free in the last ten seconds, as far as something was
   * waiting; at first from the slots that there are and how long work took before.
   */
  retryAfterSeconds(waiting: number, now: number): number {
    return Math.min(Math.max(Math.ceil(this.#secondsUntil(waiting, now)), 1), retryAfterSecondsMax);
  }

  /** Until so many slots became free. */
  #secondsUntil(count: number, now: number): number {
    const observedMs = Math.min(now - this.#busySince, this.#freed.spanMs);
    const expectedWeight = 1 - observedMs / this.#freed.spanMs;
    const seconds = observedMs / 1_000 + expectedWeight;
    const freed = this.#freed.total(now) + expectedWeight * this.#expectedPerSecond(count) + 1;
    return (count * seconds) / freed;
  }

  /** Slots that become free in a second; `unknown` before any work has ended. */
  #expectedPerSecond(unknown: number): number {
    if (this.#meanRanMs === undefined) return unknown;
    return ((this.slots ?? this.runningSize) * 1_000) / Math.max(this.#meanRanMs, 1);
  }

  #freedAfter(ranMs: number, now: number): void {
    this.#freed.add(now);
    if (ranMs <= shortMs) this.#shortLately.add(now);
    this.#meanRanMs ??= ranMs;
    this.#meanRanMs += (ranMs - this.#meanRanMs) / meanOf;
  }

  #hasCapacity(now: number): boolean {
    const way = this.#wayMs;
    const size = this.#onQueue.size - this.#shortLately.total(now);
    const taken = this.#takenLately.total(now);
    if (way === 0) return size < 1 + (taken >> 1);
    const free = (this.slots ?? 0) - this.runningSize;
    return size < Math.max(1, free * startShare) + (taken * (waitingWorkMs + 1.5 * way)) / (2 * (waitingWorkMs + way));
  }

  /**
   * Whether a key may have another slot, for its items of a priority. Jobs on the queue occupy free
   * slots; slots of short work become free while jobs are on their way. Slots of lower priorities
   * count as free: they become free for these items first. A group's share is proportional to its
   * weight, relative to the lightest group present.
   */
  #sharing(now: number): (priority: number) => MayGo | undefined {
    const { slots } = this;
    if (slots === undefined) return () => undefined;
    const unused = slots - this.#onQueue.size + this.#shortLately.total(now);
    const elsewhere = this.#elsewhere;
    const lightest = Math.min(this.#lightest, elsewhere.lightest);
    return (priority) => {
      let free = unused;
      for (const level of priorities) if (level <= priority) free -= this.#runningOf[level] as number;
      free = Math.max(1, free);
      return (key, weight, part) =>
        isFairShare(this.#passedOfKey(key) + (elsewhere.slots.get(key) ?? 0), (free * part * weight) / lightest);
    };
  }

  get #lightest(): number {
    let lightest = Number.POSITIVE_INFINITY;
    for (const { weight } of this.#groups.values()) lightest = Math.min(lightest, weight);
    return lightest;
  }

  #setRunning(entry: AdmittedItem | undefined, { isRunning }: Pick<AdmittedItem, "isRunning">): void {
    if (entry === undefined || entry.isRunning === isRunning) return;
    entry.isRunning = isRunning;
    const { priority = 1 } = entry.share;
    this.#runningOf[priority] = (this.#runningOf[priority] as number) + (isRunning ? 1 : -1);
  }

  #passedOfKey(key: string): number {
    return this.#passedOf.get(key) ?? 0;
  }
}

/** Counts what was taken lately. A long way is part of the window, in which jobs come back. */
const takenWithin = (wayMs: number) => new SlidingCount((2 * (waitingWorkMs + wayMs)) / takenIntervals, takenIntervals);

/** The least of the values of the last one or two intervals that have any. */
class LeastLately {
  readonly #intervalMs: number;
  #since = Number.NEGATIVE_INFINITY;
  #before = Number.POSITIVE_INFINITY;
  #least = Number.POSITIVE_INFINITY;

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** Adds a value, and returns the least one. */
  add(value: number, now: number): number {
    if (now - this.#since > this.#intervalMs) {
      this.#since = now;
      this.#before = this.#least;
      this.#least = value;
    } else this.#least = Math.min(this.#least, value);
    return Math.min(this.#before, this.#least);
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
