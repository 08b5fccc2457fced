/** Base64 of bytes as they arrive, so that no step is longer than its chunk and nothing is held twice. */

/** Of base64; whole groups of four. */
const blockBytes = 256 * 1024;

export class Base64Writer {
  /** Filled ones, and the one that is being filled. */
  #blocks: Buffer[] = [];
  #used = blockBytes;
  /** At most two bytes that wait for the rest of their group. */
  #rest = Buffer.alloc(0);

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
      const to = Math.min(end, from + (this.#capacity / 4) * 3);
      this.#write(chunk, from, to);
      from = to;
    }
    this.#rest = Buffer.from(chunk.subarray(end));
  }

  /** All of it, padded. */
  end(): Buffer[] {
    if (this.#rest.length > 0) this.#write(this.#rest, 0, this.#rest.length);
    const last = this.#blocks.pop();
    return last === undefined ? [] : [...this.#blocks, last.subarray(0, this.#used)];
  }

  get #capacity(): number {
    return this.#used === blockBytes ? blockBytes : blockBytes - this.#used;
  }

  #write(bytes: Buffer, from: number, to: number): void {
    if (this.#used === blockBytes) {
      this.#blocks.push(Buffer.allocUnsafeSlow(blockBytes));
      this.#used = 0;
    }
    const block = this.#blocks.at(-1) as Buffer;
    this.#used += block.write(bytes.toString("base64", from, to), this.#used, "latin1");
  }
}

/** Bytes of the base64 of so many bytes. */
export const base64BytesOf = (bytes: number): number => Math.ceil(bytes / 3) * 4;
