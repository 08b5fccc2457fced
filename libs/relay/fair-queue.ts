/**
 * A fair queue: between groups by weight, and between the keys of a group. The group with the
 * fewest tokens for its weight is next, and of its keys the one with the fewest tokens (start-time
 * fair queueing, Goyal, Vin and Cheng 1996; by tokens as in "Fairness in serving large language
 * models", arXiv 2401.00588). An item counts from the moment when it is taken. Where all items
 * count the same, the keys of a group take turns.
 *
 * Other processes may serve the same keys. Their tokens count as well, and a key that is ahead of
 * keys that wait gets less (`MayGo`).
 */

/** The group and key that an item belongs to. */
export interface Share {
  readonly group: string;
  /** The group's weight relative to other groups; above 0. */
  readonly weight: number;
  readonly key: string;
}

/**
 * Whether an item of this key, whose group has this weight, may be taken now. `part` is the part of
 * its share that it may have: 1, or less if it is ahead of keys that wait.
 */
export type MayGo = (key: string, weight: number, part: number) => boolean;

/** The tokens that count for a group or a key. */
interface Standing {
  /** Served here. */
  own: number;
  /** Served elsewhere. */
  elsewhere: number;
  /** Added when it returned, so that it has no credit for the time before. */
  lift: number;
  /** Whether something waits elsewhere. */
  waitsElsewhere: boolean;
  /** See `MayGo`. */
  part: number;
}

interface Line<Item> extends Standing {
  weight: number;
  /** The items by key, in the order of the keys' last turns. */
  items: Map<string, Set<Item>>;
  keys: Map<string, Standing>;
  /** The tokens of the key that was served last, before that. */
  floor: number;
}

/** The tokens that one process counts for a key. */
export interface KeyTokens extends Share {
  /** Tokens of about the last minute. */
  readonly tokens: number;
  /** Whether it has items that wait. */
  readonly waits: boolean;
}

/** The share halves with each lead of this part of the tokens of about a minute. */
const halvingLead = 0.01;
const partMin = 1 / 32;
/**
 * Leads are compared with at least so many tokens: keys whose requests arrive by chance are ahead
 * by some of them, and would leave slots unused.
 */
const comparedTokensMin = 400_000;

/** With more keys than these, a turn costs no more. */
const comparedKeysMax = 256;

const newStanding = (): Standing => ({ own: 0, elsewhere: 0, lift: 0, waitsElsewhere: false, part: 1 });
const tokensOf = ({ own, elsewhere, lift }: Standing): number => own + elsewhere + lift;
const timeOf = (line: Standing & { weight: number }): number => tokensOf(line) / line.weight;

function liftTo(standing: Standing, floor: number): void {
  standing.lift += Math.max(0, floor - tokensOf(standing));
}

/**
 * The part for someone with these tokens, if the last one that waits has `least`. Without any that
 * is infinite.
 */
function partOf(tokens: number, least: number): number {
  if (tokens <= least) return 1;
  return Math.max(partMin, 2 ** ((least - tokens) / Math.max(least, comparedTokensMin) / halvingLead));
}

/** Pure. An item may be in the queue once. */
export class FairQueue<Item> {
  readonly #lines = new Map<string, Line<Item>>();
  readonly #shareOf = new Map<Item, Share>();
  readonly #costOf: (item: Item) => number;
  /** The time of the group that was served last, before that. A new group starts here. */
  #floor = 0;

  /** `costOf`: the tokens of an item that is taken; by default all count one. */
  constructor(costOf: (item: Item) => number = () => 1) {
    this.#costOf = costOf;
  }

  get size(): number {
    return this.#shareOf.size;
  }

  has(item: Item): boolean {
    return this.#shareOf.has(item);
  }

  add(item: Item, share: Share): void {
    const { group, weight, key } = share;
    const line = this.#lineOf(group, weight);
    if (line.items.size === 0 && !line.waitsElsewhere) liftTo(line, this.#floor * weight);
    const items = line.items.get(key);
    if (items === undefined) {
      const standing = standingOf(line, key);
      if (!standing.waitsElsewhere) liftTo(standing, line.floor);
      line.items.set(key, new Set([item]));
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
    if (item !== undefined) this.#shareOf.delete(item);
    return item;
  }

  /** Like `take`, for an item that `giveBack` puts in its place again, or `remove` forgets. */
  lend(): Item | undefined {
    const next = this.#next(() => true);
    return next && this.#itemOf(next);
  }

  #itemOf({ line, key }: { line: Line<Item>; key: string }): Item {
    const items = line.items.get(key) as Set<Item>;
    const item = items.values().next().value as Item;
    const standing = standingOf(line, key);
    this.#floor = timeOf(line);
    line.floor = tokensOf(standing);
    items.delete(item);
    line.items.delete(key);
    if (items.size > 0) line.items.set(key, items);
    const cost = this.#costOf(item);
    standing.own += cost;
    line.own += cost;
    return item;
  }

  /**
   * Items that `lend` returned in this order, and that were not served, have their places again,
   * and count nothing.
   */
  giveBack(lent: readonly Item[]): void {
    const shareOf = (item: Item) => this.#shareOf.get(item) as Share;
    for (const item of lent) this.charge(shareOf(item), -this.#costOf(item));
    for (const [group, items] of Map.groupBy(lent, (item) => shareOf(item).group)) {
      const line = this.#lines.get(group) as Line<Item>;
      const itemsByKey = Map.groupBy(items, (item) => shareOf(item).key);
      const others = [...line.items].filter(([key]) => !itemsByKey.has(key));
      const first = [...itemsByKey].map(([key, returned]): [string, Set<Item>] => {
        line.floor = Math.min(line.floor, tokensOf(standingOf(line, key)));
        return [key, new Set([...returned, ...(line.items.get(key) ?? [])])];
      });
      line.items = new Map([...first, ...others]);
      this.#floor = Math.min(this.#floor, timeOf(line));
    }
  }

  /** Adds tokens of an item that was taken; less than zero if it cost too much. */
  charge({ group, weight, key }: Share, tokens: number): void {
    const line = this.#lineOf(group, weight);
    const standing = standingOf(line, key);
    standing.own = Math.max(0, standing.own + tokens);
    line.own = Math.max(0, line.own + tokens);
  }

  /** All tokens count less by this factor from now on. */
  decay(factor: number): void {
    this.#floor *= factor;
    for (const [group, line] of this.#lines) {
      decay(line, factor);
      line.floor *= factor;
      for (const [key, standing] of line.keys) {
        decay(standing, factor);
        if (tokensOf(standing) < 1 && !line.items.has(key)) line.keys.delete(key);
      }
      if (line.keys.size === 0 && tokensOf(line) < 1) this.#lines.delete(group);
    }
  }

  /** The tokens of all keys that were served here or wait here. */
  *usage(): Generator<KeyTokens, void> {
    for (const [group, { weight, keys, items }] of this.#lines)
      for (const [key, { own }] of keys) {
        const waits = items.has(key);
        if (waits || own >= 1) yield { group, weight, key, tokens: own, waits };
      }
  }

  /**
   * The tokens that others served, and the keys that wait there, in place of those before. One
   * without a key is the sum of further keys of its group.
   */
  setElsewhere(usage: readonly KeyTokens[]): void {
    const waited = new Set<Standing>();
    const all = () => [...this.#lines.values()].flatMap((line) => [line, ...line.keys.values()]);
    for (const standing of all()) {
      if (standing.waitsElsewhere) waited.add(standing);
      standing.elsewhere = 0;
      standing.waitsElsewhere = false;
    }
    for (const { group, weight, key, tokens, waits } of usage) {
      const line = this.#lineOf(group, this.#lines.get(group)?.weight ?? weight);
      for (const standing of key === "" ? [line] : [line, standingOf(line, key)]) {
        standing.elsewhere += tokens;
        standing.waitsElsewhere ||= waits;
      }
    }
    for (const line of this.#lines.values()) {
      const waiting: Standing[] = [];
      for (const [key, standing] of line.keys) {
        const isHere = line.items.has(key);
        if (!isHere && !standing.waitsElsewhere) continue;
        if (!isHere && !waited.has(standing)) liftTo(standing, line.floor);
        waiting.push(standing);
      }
      const least = Math.min(...waiting.map(tokensOf));
      for (const standing of line.keys.values()) standing.part = partOf(tokensOf(standing), least);
      if (line.items.size === 0 && waiting.length > 0) line.floor = least;
    }
    const waiting = [...this.#lines.values()].filter((line) => line.waitsElsewhere || line.items.size > 0);
    for (const line of waiting) if (!waited.has(line) && line.items.size === 0) liftTo(line, this.#floor * line.weight);
    const least = Math.min(...waiting.map(timeOf));
    for (const line of this.#lines.values()) line.part = partOf(timeOf(line), least);
    if (this.size === 0 && waiting.length > 0) this.#floor = least;
  }

  /**
   * Removes an item that was not served, so it does not count in its group's share. False if it is
   * not in the queue.
   */
  remove(item: Item): boolean {
    const share = this.#shareOf.get(item);
    if (share === undefined) return false;
    const items = this.#lines.get(share.group)?.items;
    const ownItems = items?.get(share.key);
    ownItems?.delete(item);
    if (ownItems?.size === 0) items?.delete(share.key);
    this.#shareOf.delete(item);
    return true;
  }

  #lineOf(group: string, weight: number): Line<Item> {
    let line = this.#lines.get(group);
    if (line === undefined) {
      line = { ...newStanding(), weight, items: new Map(), keys: new Map(), floor: 0 };
      this.#lines.set(group, line);
    }
    line.weight = weight;
    return line;
  }

  #next(mayGo: MayGo, includes?: (group: string) => boolean): { line: Line<Item>; key: string } | undefined {
    let next: { line: Line<Item>; key: string } | undefined;
    for (const [group, line] of this.#lines) {
      if (line.items.size === 0) continue;
      if (next !== undefined && timeOf(line) >= timeOf(next.line)) continue;
      if (includes?.(group) === false) continue;
      const key = nextKeyOf(line, mayGo);
      if (key !== undefined) next = { line, key };
    }
    return next;
  }
}

/**
 * The key with the fewest tokens that may go, among the first in the order of turns; of equal ones,
 * the first.
 */
function nextKeyOf(line: Line<unknown>, mayGo: MayGo): string | undefined {
  let next: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  let compared = 0;
  for (const [key] of line.items) {
    const standing = line.keys.get(key) as Standing;
    const tokens = tokensOf(standing);
    if (tokens < least && mayGo(key, line.weight, Math.min(line.part, standing.part))) {
      next = key;
      least = tokens;
    }
    if (next !== undefined && ++compared >= comparedKeysMax) break;
  }
  return next;
}

function standingOf({ keys }: Line<unknown>, key: string): Standing {
  const standing = keys.get(key);
  if (standing !== undefined) return standing;
  const created = newStanding();
  keys.set(key, created);
  return created;
}

function decay(standing: Standing, factor: number): void {
  standing.own *= factor;
  standing.lift *= factor;
}
