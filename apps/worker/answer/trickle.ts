/**
 * Counts the parts of an answer without events: bytes, of which a few at a time or white space are
 * no part.
 */
import { partBytes } from "../bounds.ts";

export class Trickle {
  #bytes = 0;

  /** Grows with each `partBytes`. */
  get parts(): number {
    return Math.floor(this.#bytes / partBytes);
  }

  push(chunk: Buffer): void {
    if (chunk.length >= partBytes) this.#bytes += chunk.length;
    else for (const byte of chunk) if (byte > 0x20) this.#bytes++;
  }
}
