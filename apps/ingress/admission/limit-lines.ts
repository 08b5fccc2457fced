/**
 * The lines of requests that wait for a rate limit, one for each key, group or account whose limit
 * they are over. A pure state machine: it decides whose turn it is and when; `limit-waits.ts` asks
 * the limits, and has the timers.
 *
 *     waiting ─▶ asking ─▶ gone      its limits admitted or refused it, or it left
 *        ▲          │
 *        └──────────┘                the same limit refused it again: it has its place in the line again
 *
 * Keys take turns in the line of their group or account. The requests of a line that are due ask
 * together, up to `turnsMax`. A line that waits for tokens asks for its first request alone: else
 * small requests behind it would take what it waits for.
 */
import { FairQueue, type Share } from "#relay/fair-queue.ts";

/** How many requests of one line ask their limits at once. */
const turnsMax = 16;
/** How often a line asks again whose limit may have capacity at any time. */
const pollMs = 1_000;
const windowMs = 60_000;

/** Why a request is over the limit of its line. */
export interface LineRefusal {
  /** When a retry can succeed, in milliseconds. */
  readonly retryMs: number;
  /**
   * The limit counts requests, this many in a minute: no retry succeeds earlier. Undefined for a
   * limit that may have capacity earlier, when a generation ends.
   */
  readonly perMinute: number | undefined;
  /** The limit counts tokens, so requests need different amounts of it. */
  readonly countsTokens: boolean;
}

interface Line<Item> {
  /** The items of those that asked last that the limit refused again. */
  refusedItems: Item[];
  queue: FairQueue<Item>;
  /** Everything in the line. */
  items: Set<Item>;
  /** The items whose limits are being asked. */
  asking: Set<Item>;
  /** Since they began to ask, one was refused, or a generation ended. */
  isRefused: boolean;
  isWoken: boolean;
  refusal: LineRefusal;
  /** When the next of them ask their limits. */
  dueAt: number;
  /** None of them leaves before. */
  untilMin: number;
  sizeOfKey: Map<string, number>;
}

interface Place<Item> {
  line: Line<Item>;
  name: string;
  share: Share;
  /** When it gives up. */
  until: number;
}

export class LimitLines<Item extends object> {
  readonly #lines = new Map<string, Line<Item>>();
  readonly #places = new Map<Item, Place<Item>>();
  readonly #random: () => number;

  /** `random` is from 0 to 1. */
  constructor(random: () => number) {
    this.#random = random;
  }

  get size(): number {
    return this.#places.size;
  }

  has(name: string): boolean {
    return this.#lines.has(name);
  }

  /**
   * Whether another request of this key could have its turn before `until`, as far as that is
   * known: a minute admits only so many requests, and those of its key before it come first.
   */
  canMeet(name: string, key: string, until: number): boolean {
    const line = this.#lines.get(name);
    if (line?.refusal.perMinute === undefined) return true;
    const minutes = Math.floor((line.sizeOfKey.get(key) ?? 0) / line.refusal.perMinute);
    return line.dueAt + minutes * windowMs <= until;
  }

  /** The item joins the end of a line, which is new if `has` says so: then with its refusal. */
  join(
    name: string,
    item: Item,
    { share, until, refusal }: { share: Share; until: number; refusal: LineRefusal },
    now: number,
  ): void {
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = {
        refusedItems: [],
        queue: new FairQueue(),
        items: new Set(),
        asking: new Set(),
        isRefused: false,
        isWoken: false,
        refusal,
        dueAt: 0,
        untilMin: until,
        sizeOfKey: new Map(),
      };
      this.#lines.set(name, line);
      this.#setDue(line, refusal, now);
    }
    const { key } = share;
    this.#places.set(item, { line, name, share, until });
    line.queue.add(item, share);
    line.untilMin = Math.min(line.untilMin, until);
    line.items.add(item);
    line.sizeOfKey.set(key, (line.sizeOfKey.get(key) ?? 0) + 1);
  }

  /** An item that asked is refused by the limit of its line again. */
  refused(item: Item, refusal: LineRefusal, now: number): void {
    const { line, until } = this.#places.get(item) as Place<Item>;
    line.asking.delete(item);
    line.refusedItems.push(item);
    if (line.asking.size === 0) giveBack(line);
    line.untilMin = Math.min(line.untilMin, until);
    if (!line.isRefused) this.#setDue(line, refusal, now);
    line.isRefused = true;
  }

  /** The item waits no longer, for any reason. May be called repeatedly. */
  leave(item: Item, now: number): void {
    const place = this.#places.get(item);
    if (place === undefined) return;
    const { line, name } = place;
    const { key } = place.share;
    this.#places.delete(item);
    line.queue.remove(item);
    line.refusedItems = line.refusedItems.filter((other) => other !== item);
    const hasAsked = line.asking.delete(item);
    if (line.asking.size === 0) giveBack(line);
    line.items.delete(item);
    const left = (line.sizeOfKey.get(key) ?? 0) - 1;
    if (left > 0) line.sizeOfKey.set(key, left);
    else line.sizeOfKey.delete(key);
    if (line.items.size === 0) this.#lines.delete(name);
    // All of them were admitted: the next ones may be.
    else if (hasAsked && line.asking.size === 0 && !line.isRefused) line.dueAt = now;
  }

  /** The line in which the item waits, or asks. */
  lineOf(item: Item): string | undefined {
    return this.#places.get(item)?.name;
  }

  /**
   * How many items should be admitted before this one, and the time of its turn where the limit
   * counts requests. Its cost grows with the number of keys and of requests of its key.
   */
  placeOf(item: Item): { ahead: number; at: number | undefined } | undefined {
    const place = this.#places.get(item);
    if (place === undefined) return undefined;
    const { line, share } = place;
    const lent = [...line.asking, ...line.refusedItems];
    const isLent = lent.includes(item);
    const ahead = isLent ? lent.indexOf(item) : lent.length + line.queue.aheadOf(share, line.queue.ownPlaceOf(item));
    const { perMinute } = line.refusal;
    const at = perMinute === undefined ? undefined : line.dueAt + Math.floor(ahead / perMinute) * windowMs;
    return { ahead, at };
  }

  /** A generation ended that counts in the limit of this line. */
  wake(name: string, now: number): void {
    const line = this.#lines.get(name);
    if (line === undefined || line.refusal.perMinute !== undefined) return;
    line.isWoken = true;
    line.dueAt = Math.min(line.dueAt, now);
  }

  /** The limits of all lines may have changed: they ask at once. Returns the lines' names. */
  askAgain(now: number): Iterable<string> {
    for (const line of this.#lines.values()) line.dueAt = now;
    return this.#lines.keys();
  }

  /** The items whose turn it is, which then ask, and the ones that waited too long and left. */
  takeDue(name: string, now: number): { due: Item[]; expired: Item[] } {
    const line = this.#lines.get(name);
    if (line === undefined) return { due: [], expired: [] };
    const expired = line.untilMin <= now ? this.#takeExpired(line, now) : [];
    const due: Item[] = [];
    if (line.asking.size === 0 && line.dueAt <= now) {
      const max = line.refusal.countsTokens ? 1 : turnsMax;
      line.isRefused = false;
      line.isWoken = false;
      while (due.length < max) {
        const item = line.queue.lend();
        if (item === undefined) break;
        line.asking.add(item);
        due.push(item);
      }
    }
    return { due, expired };
  }

  /** When to call `takeDue` next; undefined for a line without waiting requests. */
  nextAt(name: string): number | undefined {
    const line = this.#lines.get(name);
    if (line === undefined || line.items.size === line.asking.size) return undefined;
    return line.asking.size > 0 ? line.untilMin : Math.min(line.dueAt, line.untilMin);
  }

  #takeExpired(line: Line<Item>, now: number): Item[] {
    const expired: Item[] = [];
    line.untilMin = Number.POSITIVE_INFINITY;
    for (const item of line.items) {
      if (line.asking.has(item)) continue;
      const { until } = this.#places.get(item) as Place<Item>;
      if (until <= now) expired.push(item);
      else line.untilMin = Math.min(line.untilMin, until);
    }
    for (const item of expired) this.leave(item, now);
    return expired;
  }

  #setDue(line: Line<Item>, refusal: LineRefusal, now: number): void {
    line.refusal = refusal;
    const { retryMs, perMinute } = refusal;
    // Ingresses that wait for the same limit do not all ask at the same time.
    const pauseMs = perMinute === undefined ? Math.min(retryMs, pollMs) * (1 + this.#random() / 5) : retryMs;
    line.dueAt = line.isWoken && perMinute === undefined ? now : now + pauseMs;
  }
}

/** All have an answer: those that were refused wait again as before. */
function giveBack<Item>(line: Line<Item>): void {
  line.queue.giveBack(line.refusedItems);
  line.refusedItems = [];
}
