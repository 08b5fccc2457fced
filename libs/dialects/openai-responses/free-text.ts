/**
 * Extracts the free text of a call from arguments that arrive in chunks as `{"input":"…"}`, and
 * passes it on as early as possible. Models write such JSON by hand, so errors that a parser would
 * reject (line breaks in a string, unknown escapes, a missing end) are tolerated.
 */
import { textOfCall } from "../neutral/tools.ts";

const inputStart = /^\s*\{\s*"input"\s*:\s*"/;
/** The `{"input":"` must appear within this many characters. */
const beginningLengthMax = 100;
const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", '"': '"', "\\": "\\", "/": "/" };

/** Reads the free text of one call. */
export class FreeTextReader {
  #state: "before" | "inside" | "behind" | "other" = "before";
  /**
   * The part not passed on yet: everything, as long as it does not look like an object with the
   * text.
   */
  #rest = "";

  /** The text that this chunk of the arguments adds. */
  push(chunk: string): string {
    if (this.#state === "behind") return "";
    this.#rest += chunk;
    if (this.#state === "other") return "";
    if (this.#state === "before") {
      const match = inputStart.exec(this.#rest);
      if (match === null) {
        if (this.#rest.length > beginningLengthMax) this.#state = "other";
        return "";
      }
      this.#state = "inside";
      this.#rest = this.#rest.slice(match[0].length);
    }
    const end = this.#readableEnd();
    const text = unescaped(this.#rest.slice(0, end));
    this.#rest = this.#rest.slice(end);
    return text;
  }

  /** The remaining text when the arguments end: all of it if they had another form. */
  end(): string {
    return this.#state === "before" || this.#state === "other" ? textOfCall(this.#rest) : "";
  }

  /**
   * The end of the readable part: not inside an escape, nor between the halves of a surrogate pair.
   */
  #readableEnd(): number {
    const rest = this.#rest;
    let readable = 0;
    for (let at = 0; at < rest.length; ) {
      const first = rest[at];
      if (first === '"') {
        this.#state = "behind";
        return at;
      }
      const length = first !== "\\" ? 1 : rest[at + 1] === "u" ? 6 : 2;
      if (at + length > rest.length) break;
      at += length;
      if (!isHighSurrogate(rest, at - length, length)) readable = at;
    }
    return readable;
  }
}

function isHighSurrogate(text: string, at: number, length: number): boolean {
  const code = length === 6 ? Number.parseInt(text.slice(at + 2, at + 6), 16) : length === 1 ? text.charCodeAt(at) : 0;
  return code >= 0xd800 && code <= 0xdbff;
}

const unescaped = (text: string) =>
  text.replace(/\\(u[\dA-Fa-f]{4}|.)/gs, (whole, code: string) =>
    code.length === 5 ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : (escapes[code] ?? whole),
  );

/** The free text of a whole call; the same as that of its chunks. */
export function freeTextOf(input: string): string {
  const reader = new FreeTextReader();
  return reader.push(input) + reader.end();
}
