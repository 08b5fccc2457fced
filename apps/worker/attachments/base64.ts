/** Base64 of bytes as they arrive, in blocks that are used again: no step is longer than its chunk, and a large source leaves nothing for V8 to collect. */

/** Whole groups of four. */
export const blockBytes = 64 * 1024;

/**
 * Blocks that are at hand. What is put back is written over by the next that takes it, so nobody may be given a block itself: sockets go on reading what they were
 * given after it is called sent.
 */
export class BlockPool {
  #free: Buffer[] = [];

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(blockBytes);
  }

  putBack(blocks: Iterable<Buffer>): void {
    for (const block of blocks) this.#free.push(block);
  }

  /** Keeps none that is not in use. */
  clear(): void {
    this.#free = [];
  }
}

/** Base64 in blocks, of which the last may be filled in part. */
export interface Base64 {
  blocks: Buffer[];
  length: number;
}

export class Base64Writer {
  readonly #pool: BlockPool;
  readonly #written: Base64 = { blocks: [], length: 0 };
  /** At most two bytes that wait for the rest of their group. */
  #rest = Buffer.alloc(0);

  constructor(pool: BlockPool) {
    this.#pool = pool;
  }

  push(chunk: Buffer): void {
    let from = 0;
    if (this.#rest.length > 0) {
      from = Math.min(3 - this.#rest.length, chunk.length);
      this.#rest = Buffer.concat([this.#rest, chunk.subarray(0, from)]);
      if (this.#rest.length < 3) return;
      this.#write(this.#rest, 0, 3);
    }
    const end = chunk.length - ((chunk.length - from) % 3);
    while (from < end) {
      const capacity = blockBytes - (this.#written.length % blockBytes);
      const to = Math.min(end, from + (capacity / 4) * 3);
      this.#write(chunk, from, to);
      from = to;
    }
    this.#rest = Buffer.from(chunk.subarray(end));
  }

  /** All of it, padded. */
  end(): Base64 {
    if (this.#rest.length > 0) this.#write(this.#rest, 0, this.#rest.length);
    return this.#written;
  }

  /** Gives up what was written. */
  drop(): void {
    this.#pool.putBack(this.#written.blocks.splice(0));
  }

  #write(bytes: Buffer, from: number, to: number): void {
    const { blocks, length } = this.#written;
    if (length % blockBytes === 0) blocks.push(this.#pool.take());
    this.#written.length += (blocks.at(-1) as Buffer).write(
      bytes.toString("base64", from, to),
      length % blockBytes,
      "latin1",
    );
  }
}

/** Bytes of the base64 of so many bytes. */
export const base64BytesOf = (bytes: number): number => Math.ceil(bytes / 3) * 4;

/** Bytes of the blocks that hold it. */
export const heldBytesOf = (bytes: number): number => Math.ceil(base64BytesOf(bytes) / blockBytes) * blockBytes;

/** Parts of it, each to be read before the next is asked for; it ends early once its blocks are gone. */
export function* partsOf({
  blocks,
  length,
}: {
  readonly blocks: Buffer[];
  readonly length: number;
}): Generator<Buffer, void> {
  for (let place = 0; place * blockBytes < length; place++) {
    const block = blocks[place];
    if (block === undefined) return;
    yield block.subarray(0, Math.min(blockBytes, length - place * blockBytes));
  }
}
