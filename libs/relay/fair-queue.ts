/**
 * A fair queue: between groups by weight (start-time fair queueing, Goyal, Vin and Cheng 1996), and
 * between the keys of a group in rounds. A key has one turn in each round; a key that has not had
 * its turn goes before keys that have. Every request counts as one.
 */

/** The group and key that an item belongs to. */
export interface Share {
  readonly group: string;
  /** The group's weight relative to other groups; above 0. */
  readonly weight: number;
  readonly key: string;
}

/** Whether an item of this key, whose group has this weight, may be taken now. */
type MayGo = (key: string, weight: number) => boolean;

interface Line<Item> {
  weight: number;
  /**
   * The group's virtual time: its served items divided by its weight. The group with the lowest is
   * next.
   */
  time: number;
  items: Map<string, Set<Item>>;
  /** The keys that still have a turn in this round, in order. */
  round: Set<string>;
  /** The keys that have had their turn. */
  served: Set<string>;
  /** How many items of each key are lent. */
  lent: Map<string, number>;
}

/** Pure. An item may be in the queue once. */
export class FairQueue<Item> {
  readonly #lines = new Map<string, Line<Item>>();
  readonly #shareOf = new Map<Item, Share>();
  /**
   * The virtual time of the group that was served last. A new group starts here, so that it gets no
   * credit for the time before.
   */
  #time = 0;

  get size(): number {
    return this.#shareOf.size;
  }

  has(item: Item): boolean {
    return this.#shareOf.has(item);
  }

  add(item: Item, share: Share): void {
    const { group, weight, key } = share;
    let line = this.#lines.get(group);
    if (line === undefined) {
      line = { weight, time: this.#time, items: new Map(), round: new Set(), served: new Set(), lent: new Map() };
      this.#lines.set(group, line);
    } else if (line.items.size === 0) line.time = Math.max(line.time, this.#time);
    line.weight = weight;
    const items = line.items.get(key);
    if (items === undefined) {
      line.items.set(key, new Set([item]));
      if (!line.served.has(key)) line.round.add(key);
    } else items.add(item);
    this.#shareOf.set(item, share);
  }

  /** The item that was added first of those that are in the queue. */
  get oldest(): Item | undefined {
    for (const item of this.#shareOf.keys()) return item;
    return undefined;
  }

  /** How many items of its key go before this one; undefined if it is not in the queue. */
  ownPlaceOf(item: Item): number | undefined {
    const share = this.#shareOf.get(item);
    if (share === undefined) return undefined;
    let place = 0;
    for (const other of this.#lines.get(share.group)?.items.get(share.key) ?? []) {
      if (other === item) break;
      place++;
    }
    return place;
  }

  /**
   * How many items should be taken before the one of this share with the place `own` among those of
   * its key, by default a further one, if no others are added. Its cost grows with the number of
   * keys.
   */
  aheadOf({ group, weight, key }: Share, own?: number): number {
    const line = this.#lines.get(group);
    own ??= line?.items.get(key)?.size ?? 0;
    let ahead = own;
    for (const [other, { size }] of line?.items ?? []) if (other !== key) ahead += Math.min(size, own + 1);
    const served = (ahead + 1) / weight;
    for (const [other, { weight: otherWeight, items }] of this.#lines) {
      if (other === group) continue;
      let size = 0;
      for (const { size: more } of items.values()) size += more;
      ahead += Math.min(size, Math.ceil(served * otherWeight));
    }
    return ahead;
  }

  /**
   * Removes and returns the next item whose key may go; undefined if there is none. A key that may
   * not go keeps its turn. `includes`: whether groups take part at all; all do by default.
   */
  take(mayGo: MayGo = () => true, includes?: (group: string) => boolean): Item | undefined {
    const next = this.#next(mayGo, includes);
    const item = next && this.#itemOf(next);
    if (item !== undefined) this.#forget(item);
    return item;
  }

  /** Like `take`, for an item that `giveBack` puts in its place again, or `remove` forgets. */
  lend(): Item | undefined {
    const next = this.#next(() => true);
    if (next === undefined) return undefined;
    const { line, key } = next;
    line.lent.set(key, (line.lent.get(key) ?? 0) + 1);
    return this.#itemOf(next);
  }

  #itemOf({ line, key }: { line: Line<Item>; key: string }): Item {
    const items = line.items.get(key) as Set<Item>;
    const item = items.values().next().value as Item;
    line.round.delete(key);
    line.served.add(key);
    items.delete(item);
    if (items.size === 0) line.items.delete(key);
    this.#time = line.time;
    line.time += 1 / line.weight;
    return item;
  }

  /**
   * Ends the lending. Items that `lend` returned in this order, and that were not served, have
   * their places again, and their turns do not count.
   */
  giveBack(lent: readonly Item[]): void {
    const shareOf = (item: Item) => this.#shareOf.get(item) as Share;
    for (const [group, items] of Map.groupBy(lent, (item) => shareOf(item).group)) {
      const { weight } = shareOf(items[0] as Item);
      const line = this.#lines.get(group) as Line<Item>;
      const itemsByKey = Map.groupBy(items, (item) => shareOf(item).key);
      for (const [key, first] of itemsByKey) {
        line.items.set(key, new Set([...first, ...(line.items.get(key) ?? [])]));
        if (line.lent.get(key) === first.length) line.served.delete(key);
        else line.served.add(key);
      }
      line.round = new Set([...itemsByKey.keys(), ...line.round].filter((key) => !line.served.has(key)));
      line.time -= items.length / weight;
      this.#time = Math.min(this.#time, line.time);
    }
    for (const { lent: counts } of this.#lines.values()) counts.clear();
  }

  /**
   * Removes an item that was not served, so it does not count in its group's share. False if it is
   * not in the queue.
   */
  remove(item: Item): boolean {
    const share = this.#shareOf.get(item);
    if (share === undefined) return false;
    const line = this.#lines.get(share.group);
    const items = line?.items.get(share.key);
    items?.delete(item);
    if (items?.size === 0) {
      line?.items.delete(share.key);
      line?.round.delete(share.key);
    }
    this.#forget(item);
    return true;
  }

  /**
   * A group without items is remembered only while it is ahead of the others, or items of it are
   * lent.
   */
  #next(mayGo: MayGo, includes?: (group: string) => boolean): { line: Line<Item>; key: string } | undefined {
    let next: { line: Line<Item>; key: string } | undefined;
    for (const [group, line] of this.#lines) {
      if (line.items.size > 0) {
        if (next !== undefined && line.time >= next.line.time) continue;
        if (includes?.(group) === false) continue;
        const key = nextKeyOf(line, mayGo);
        if (key !== undefined) next = { line, key };
      } else if (line.time <= this.#time && line.lent.size === 0) this.#lines.delete(group);
    }
    return next;
  }

  #forget(item: Item): void {
    this.#shareOf.delete(item);
    if (this.#shareOf.size > 0) return;
    this.#lines.clear();
    this.#time = 0;
  }
}

/**
 * The first key of this round that may go. If none may, the next round begins; keys that have not
 * had their turn come first.
 */
function nextKeyOf<Item>({ items, round, served, weight }: Line<Item>, mayGo: MayGo): string | undefined {
  for (const key of round) if (mayGo(key, weight)) return key;
  served.clear();
  for (const key of items.keys()) round.add(key);
  for (const key of round) if (mayGo(key, weight)) return key;
  return undefined;
}
