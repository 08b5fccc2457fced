/** Follows JSON that arrives in chunks of text. */
import { backslash, closeBrace, closeBracket, openBrace, openBracket, quote } from "./bytes.ts";

/** Detects when the chunks of a text add up to a whole JSON object or array, in one pass. */
export class JsonProgress {
  #depth = 0;
  #begun = false;
  #inText = false;
  #escaped = false;

  /** Returns how much of the chunk belongs to the value: all of it until the value has ended. */
  push(chunk: string): number {
    if (this.isWhole) return 0;
    for (let at = 0; at < chunk.length; at++) {
      const code = chunk.charCodeAt(at);
      if (this.#inText) {
        if (this.#escaped) this.#escaped = false;
        else if (code === backslash) this.#escaped = true;
        else if (code === quote) this.#inText = false;
      } else if (code === quote) this.#inText = true;
      else if (code === openBrace || code === openBracket) {
        this.#depth++;
        this.#begun = true;
      } else if (code === closeBrace || code === closeBracket) {
        this.#depth--;
        if (this.isWhole) return at + 1;
      }
    }
    return chunk.length;
  }

  /** Forgets what it followed. */
  restart(): void {
    this.#depth = 0;
    this.#begun = false;
    this.#inText = false;
    this.#escaped = false;
  }

  get isBegun(): boolean {
    return this.#begun;
  }

  get isIncomplete(): boolean {
    return this.#begun && !this.isWhole;
  }

  get isWhole(): boolean {
    return this.#begun && this.#depth <= 0 && !this.#inText;
  }
}
