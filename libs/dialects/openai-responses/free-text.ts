/**
 * The free text of a call whose arguments arrive as `{"input":"…"}`, in pieces: what can be read of it is passed on at once. Models write such JSON
 * by hand, so what a parser would refuse (line breaks in a string, unknown escapes, a missing end) is read as it was meant.
 */
import { textOfCall } from "../tools.ts";

const beginning = /^\s*\{\s*"input"\s*:\s*"/;
/** Characters within which the beginning must show. */
const beginningLengthMax = 100;
const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", '"': '"', "\\": "\\", "/": "/" };

/** Reads the free text of one call. */
export class FreeTextReader {
  #state: "before" | "inside" | "behind" | "other" = "before";
  /** What was not passed on: all of it, as long as it does not look like an object with the text. */
  #rest = "";

  /** The text that this piece of the arguments brings. */
  push(chunk: string): string {
    if (this.#state === "behind") return "";
    this.#rest += chunk;
    if (this.#state === "other") return "";
    if (this.#state === "before") {
      const found = beginning.exec(this.#rest);
      if (found === null) {
        if (this.#rest.length > beginningLengthMax) this.#state = "other";
        return "";
      }
      this.#state = "inside";
      this.#rest = this.#rest.slice(found[0].length);
    }
    const end = this.#readableEnd();
    const text = unescaped(this.#rest.slice(0, end));
    this.#rest = this.#rest.slice(end);
    return text;
  }

  /** What is left of the text when the arguments end: all of it when they were of another form. */
  end(): string {
    return this.#state === "before" || this.#state === "other" ? textOfCall(this.#rest) : "";
  }

  /** How far the rest can be read: not into an escape that is cut, nor between the halves of a character. */
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

const unescaped = (text: string): string =>
  text.replace(/\\(u[\dA-Fa-f]{4}|.)/gs, (whole, code: string) =>
    code.length === 5 ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : (escapes[code] ?? whole),
  );

/** The free text of a whole call; the same as that of its pieces. */
export function freeTextOf(input: string): string {
  const reader = new FreeTextReader();
  return reader.push(input) + reader.end();
}
