/**
 * A map for what comes and goes thousands of times a second, with all that hangs on it.
 *
 * A plain Map or Set is not made for that. When V8 moves its entries to a new table, the outgrown one keeps what it held, and points to the new one. As soon
 * as one of them has become old, it keeps all that follow alive until the next full collection, and everything that ever was an entry of theirs. Here
 * the entries are cells, which are emptied when their values are removed: only they live longer than they should.
 */
export class LiveMap<Key extends string | number, Value> {
  readonly #cells = new Map<Key, { value: Value | undefined }>();

  get size(): number {
    return this.#cells.size;
  }

  get(key: Key): Value | undefined {
    return this.#cells.get(key)?.value;
  }

  set(key: Key, value: Value): void {
    const cell = this.#cells.get(key);
    if (cell === undefined) this.#cells.set(key, { value });
    else cell.value = value;
  }

  /** False when there was none. */
  delete(key: Key): boolean {
    const cell = this.#cells.get(key);
    if (cell === undefined) return false;
    cell.value = undefined;
    return this.#cells.delete(key);
  }

  /** Takes out the one whose key was set first. */
  shift(): Value | undefined {
    for (const [key, { value }] of this.#cells) {
      this.delete(key);
      return value;
    }
    return undefined;
  }

  /** In the order in which their keys were set. Others may be set and deleted meanwhile. */
  *values(): Generator<Value, void> {
    for (const { value } of this.#cells.values()) yield value as Value;
  }
}
