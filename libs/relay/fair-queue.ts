/**
 * A queue that is fair twice: between groups by weight (start-time fair queueing, Goyal, Vin and Cheng 1996), and between the keys of a group
 * in rounds, in each of which a key has one turn: who comes late and has not had its own goes before those who have. A request counts as one,
 * whatever it asks for.
 */

/** Whose share of the queue something takes. */
export interface Share {
  readonly group: string;
  /** Of the group, beside the other groups' weights; above 0. */
  readonly weight: number;
  readonly key: string;
}

/** May something of this key, whose group has this weight, be taken out now? */
type MayGo = (key: string, weight: number) => boolean;

interface Line<Item> {
  weight: number;
  /** The group's virtual time: how much it was served, measured by its weight. The least is next. */
  time: number;
  items: Map<string, Set<Item>>;
  /** The keys that have a turn in this round, in order. */
  round: Set<string>;
  /** Those that have had it. */
  served: Set<string>;
}

/** Pure; every item at most once. */
export class FairQueue<Item> {
  readonly #lines = new Map<string, Line<Item>>();
  readonly #places = new Map<Item, Share>();
  /** The virtual time of the group served last: nobody who comes later is owed for the time before it came. */
  #time = 0;

  get size(): number {
    return this.#places.size;
  }

  has(item: Item): boolean {
    return this.#places.has(item);
  }

  add(item: Item, share: Share): void {
    const { group, weight, key } = share;
    let line = this.#lines.get(group);
    if (line === undefined) {
      line = { weight, time: this.#time, items: new Map(), round: new Set(), served: new Set() };
      this.#lines.set(group, line);
    } else if (line.items.size === 0) line.time = Math.max(line.time, this.#time);
    line.weight = weight;
    const items = line.items.get(key);
    if (items === undefined) {
      line.items.set(key, new Set([item]));
      if (!line.served.has(key)) line.round.add(key);
    } else items.add(item);
    this.#places.set(item, share);
  }

  /** Takes the next one out, of a key that may go; undefined when there is none. A key that may not go keeps its turn. */
  take(mayGo: MayGo = () => true): Item | undefined {
    const next = this.#next(mayGo);
    if (next === undefined) return undefined;
    const { line, key } = next;
    const items = line.items.get(key) as Set<Item>;
    const item = items.values().next().value as Item;
    line.round.delete(key);
    line.served.add(key);
    items.delete(item);
    if (items.size === 0) line.items.delete(key);
    this.#time = line.time;
    line.time += 1 / line.weight;
    this.#forget(item);
    return item;
  }

  /** Takes one out wherever it is; false when it is not there. It was not served: nobody's share is smaller for it. */
  remove(item: Item): boolean {
    const share = this.#places.get(item);
    if (share === undefined) return false;
    const line = this.#lines.get(share.group) as Line<Item>;
    const items = line.items.get(share.key) as Set<Item>;
    items.delete(item);
    if (items.size === 0) {
      line.items.delete(share.key);
      line.round.delete(share.key);
    }
    this.#forget(item);
    return true;
  }

  /** Groups without items are remembered only for as long as they have had more than the others. */
  #next(mayGo: MayGo): { line: Line<Item>; key: string } | undefined {
    let next: { line: Line<Item>; key: string } | undefined;
    for (const [group, line] of this.#lines) {
      if (line.items.size > 0) {
        if (next !== undefined && line.time >= next.line.time) continue;
        const key = nextKeyOf(line, mayGo);
        if (key !== undefined) next = { line, key };
      } else if (line.time <= this.#time) this.#lines.delete(group);
    }
    return next;
  }

  #forget(item: Item): void {
    this.#places.delete(item);
    if (this.#places.size > 0) return;
    this.#lines.clear();
    this.#time = 0;
  }
}

/** The first in this round that may go; when none of them may, the next round begins, with those first that have not had their turn. */
function nextKeyOf<Item>({ items, round, served, weight }: Line<Item>, mayGo: MayGo): string | undefined {
  for (const key of round) if (mayGo(key, weight)) return key;
  served.clear();
  for (const key of items.keys()) round.add(key);
  for (const key of round) if (mayGo(key, weight)) return key;
  return undefined;
}
