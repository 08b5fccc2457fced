/**
 * The latest answer of one connection and all that was said up to it, so that the next turn may bring only what is new. It is kept for this
 * connection alone, within a budget that all connections share.
 */
import type { Claim } from "../admission/capacity.ts";

/** Items as JSON, parted by commas. */
type Items = readonly Buffer[];

export class Conversation {
  readonly #held: Claim;
  #id: string | undefined;
  #items: Items = [];
  /** The items of the turn under way; undefined when there is none, or when they are too many to be kept. */
  #next: Items | undefined;
  /** Finished items of its answer, by their place. */
  #answered = new Map<number, Buffer>();

  /** `held` is what its items hold, in bytes. */
  constructor(held: Claim) {
    this.#held = held;
  }

  /** The items up to the answer of that id, with it; undefined when it is not the latest, or not kept. */
  upTo(id: string): Items | undefined {
    return id === this.#id ? this.#items : undefined;
  }

  /** A turn begins whose input are these items. */
  begin(items: Items): void {
    this.#next = items;
    this.#hold();
  }

  /** An item of its answer is complete. */
  add(place: number, item: unknown): void {
    if (this.#next === undefined) return;
    this.#answered.set(place, jsonOf(item));
    this.#hold();
  }

  /** Its answer is complete; where the answer does not repeat its items, those that were added are its output. */
  complete(id: string, output: readonly unknown[]): void {
    if (this.#next !== undefined) {
      const answered = [...this.#answered].sort(([one], [other]) => one - other).map(([, item]) => item);
      this.#answered.clear();
      this.#next = [...this.#next, ...(output.length > 0 ? output.map(jsonOf) : answered)];
      this.#hold();
    }
    if (this.#next === undefined) return;
    this.#id = id;
    this.#items = this.#next;
    this.abandon();
  }

  /** The turn ended without an answer: the one before it is still the latest. */
  abandon(): void {
    this.#next = undefined;
    this.#answered.clear();
    this.#hold();
  }

  /** The connection is closed. */
  forget(): void {
    this.#id = undefined;
    this.#items = [];
    this.abandon();
  }

  /** Counts what is held; what of a new turn there is no room for is let go. */
  #hold(): void {
    const parts = new Set([...this.#items, ...(this.#next ?? []), ...this.#answered.values()]);
    const bytes = [...parts].reduce((sum, { length }) => sum + length, 0);
    if (this.#held.hold(bytes) !== undefined) this.abandon();
  }
}

const jsonOf = (item: unknown): Buffer => Buffer.from(item === undefined ? "" : JSON.stringify(item));
