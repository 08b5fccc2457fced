/**
 * Encodes bytes to base64 as they arrive, in blocks that are reused: each step is as short as its
 * chunk, and large attachments leave no garbage.
 */

/** Whole groups of four. */
export const blockBytes = 64 * 1024;

/**
 * Free blocks. A block that is put back is overwritten by its next user, so a socket must get a
 * copy: it may read a buffer after its write callback.
 */
export class BlockPool {
  #free: Buffer[] = [];

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(blockBytes);
  }

  putBack(blocks: Iterable<Buffer>): void {
    for (const block of blocks) this.#free.push(block);
  }

  /** Releases the memory of all free blocks. */
  clear(): void {
    this.#free = [];
  }
}

/** Base64 in blocks; the last block may be partly filled. */
export interface Base64 {
  blocks: Buffer[];
  length: number;
}

export class Base64Writer {
  readonly #pool: BlockPool;
  readonly #written: Base64 = { blocks: [], length: 0 };
  /** At most two bytes of an incomplete group of three. */
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

  /** Pads and returns the whole. */
  end(): Base64 {
    if (this.#rest.length > 0) this.#write(this.#rest, 0, this.#rest.length);
    return this.#written;
  }

  /** Puts all blocks back. */
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

/** The length of the base64 of `bytes` bytes. */
export const base64BytesOf = (bytes: number): number => Math.ceil(bytes / 3) * 4;

/** The memory of the blocks for the base64 of `bytes` bytes. */
export const memoryOf = (bytes: number): number => Math.ceil(base64BytesOf(bytes) / blockBytes) * blockBytes;

/**
 * The parts of a base64 text. Read each before the next. Ends early once the blocks are put back.
 */
export function* partsOf({
  blocks,
  length,
}: {
  readonly blocks: Buffer[];
  readonly length: number;
}): Generator<Buffer, void> {
  for (let index = 0; index * blockBytes < length; index++) {
    const block = blocks[index];
    if (block === undefined) return;
    yield block.subarray(0, Math.min(blockBytes, length - index * blockBytes));
  }
}
