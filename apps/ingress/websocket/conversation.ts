/**
 * The conversation of one connection up to its latest answer, so that the next turn needs only the
 * new items. Kept for this connection only, within a capacity that all connections share.
 */
import type { Claim } from "../common/capacity.ts";
import { outputOf } from "../common/items.ts";

/** Items as JSON, separated by commas. */
type Items = readonly Buffer[];

export class Conversation {
  readonly #claim: Claim;
  #id: string | undefined;
  #items: Items = [];
  /**
   * The items of the turn in progress; undefined if there is none, or if they are too large to
   * keep.
   */
  #next: Items | undefined;
  /** Finished items of its answer, by their index. */
  #answered = new Map<number, Buffer>();

  /** `held` is its claim on the bytes of conversations. */
  constructor(claim: Claim) {
    this.#claim = claim;
  }

  /**
   * The items up to and including the answer with this id; undefined if it is not the latest
   * answer, or not kept.
   */
  upTo(id: string): Items | undefined {
    return id === this.#id ? this.#items : undefined;
  }

  /** A turn with this input begins. */
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

  /** The answer is complete. If `output` is empty, the added items are its output. */
  complete(id: string, output: readonly unknown[]): void {
    if (this.#next !== undefined) {
      const answered = outputOf(this.#answered);
      this.#answered.clear();
      this.#next = [...this.#next, ...(output.length > 0 ? output.map(jsonOf) : answered)];
      this.#hold();
    }
    if (this.#next === undefined) return;
    this.#id = id;
    this.#items = this.#next;
    this.abandon();
  }

  /** The turn ended without an answer, so the previous answer stays the latest. */
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

  /** Counts the bytes, and drops the items of the new turn if they do not fit. */
  #hold(): void {
    const parts = new Set([...this.#items, ...(this.#next ?? []), ...this.#answered.values()]);
    const bytes = [...parts].reduce((sum, { length }) => sum + length, 0);
    if (this.#claim.hold(bytes) !== undefined) this.abandon();
  }
}

const jsonOf = (item: unknown): Buffer => Buffer.from(item === undefined ? "" : JSON.stringify(item));
