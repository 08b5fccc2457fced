/**
 * A map for entries that come and go thousands of times a second.
 *
 * When V8 grows or compacts a plain Map or Set, the old table keeps its entries and points to the
 * new table. Once one table has been promoted to the old generation, it keeps all later tables and
 * their entries alive until the next full collection. Here each entry is a cell that is emptied on
 * removal, so only the cells and the keys live too long, not the values.
 */
export class LiveMap<Key, Value> {
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

  /** False if there was no such entry. */
  delete(key: Key): boolean {
    const cell = this.#cells.get(key);
    if (cell === undefined) return false;
    cell.value = undefined;
    return this.#cells.delete(key);
  }

  /** Removes and returns the value whose key was set first. */
  shift(): Value | undefined {
    for (const [key, { value }] of this.#cells) {
      this.delete(key);
      return value;
    }
    return undefined;
  }

  /** As `values`, with the keys. */
  *entries(): Generator<[Key, Value], void> {
    for (const [key, { value }] of this.#cells) yield [key, value as Value];
  }

  /**
   * In the order in which their keys were set. Entries may be set and deleted during the iteration.
   */
  *values(): Generator<Value, void> {
    for (const { value } of this.#cells.values()) yield value as Value;
  }
}
