/** Splits a stream of bytes into lines, or into the elements of an array, within bounded memory. */
import type { Readable } from "node:stream";

const newline = 0x0a;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const nothing = Buffer.alloc(0);

export interface InputLine {
  /** Counts from 1, blank lines included. */
  number: number;
  /** Undefined for a line that is longer than the bound. */
  bytes: Buffer | undefined;
}

/** Collects the bytes of one line or element; drops them once they exceed the bound. */
class Collector {
  readonly #bytesMax: number;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(part: Buffer): void {
    this.#length += part.length;
    if (this.isOver) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  get isOver(): boolean {
    return this.#length > this.#bytesMax;
  }

  /** Undefined if there were too many bytes. */
  take(): Buffer | undefined {
    const [first = nothing] = this.#parts;
    const whole = this.#parts.length > 1 ? Buffer.concat(this.#parts) : first;
    const isTooLong = this.isOver;
    this.#parts = [];
    this.#length = 0;
    return isTooLong ? undefined : whole;
  }
}

/**
 * The lines of a stream, without blank ones and without a byte order mark. A line may end with CR
 * LF.
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>, lineBytesMax: number): AsyncGenerator<InputLine> {
  const collector = new Collector(lineBytesMax);
  let number = 1;
  const lineEnd = (): InputLine | undefined => {
    const all = collector.take();
    const bytes = number === 1 && all?.subarray(0, 3).equals(byteOrderMark) ? all.subarray(3) : all;
    const line = { number, bytes };
    number++;
    return bytes !== undefined && isBlank(bytes) ? undefined : line;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      collector.add(chunk.subarray(start, end));
      start = end + 1;
      const line = lineEnd();
      if (line !== undefined) yield line;
    }
    collector.add(chunk.subarray(start));
  }
  const last = lineEnd();
  if (last !== undefined) yield last;
}

const isBlank = (bytes: Buffer): boolean => {
  for (const byte of bytes) if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  return true;
};

/** A body for `elementsOf`: a request has an answer also where its body is not read to its end. */
export const bodyOf = ({ body }: { body?: unknown }): AsyncIterable<Buffer> =>
  (body as Readable).iterator({ destroyOnReturn: false });

/** A part of a body: an element of the array at the path, or all other bytes. */
export type BodyPart = ({ kind: "element" } & InputLine) | { kind: "rest"; bytes: Buffer };

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];
const nameBytesMax = 256;

/**
 * Splits a JSON object in which the array at `path` is large: yields its elements one by one, and
 * at the end the object with an empty array in its place. There is no such end if the bytes break
 * off, or if the rest or an element is too long: then it reads no further. Checks only the
 * structure around the elements.
 */
export async function* elementsOf(
  chunks: AsyncIterable<Buffer>,
  path: readonly string[],
  bounds: { elementBytesMax: number; restBytesMax: number },
): AsyncGenerator<BodyPart> {
  const element = new Collector(bounds.elementBytesMax);
  const rest = new Collector(bounds.restBytesMax);
  const text = new Collector(nameBytesMax);
  /** The last string at each depth outside of the array; before a container it is its name. */
  const names: string[] = [];
  const insideDepth = path.length + 1;
  let number = 0;
  let depth = 0;
  let isInside = false;
  let inString = false;
  let isEscaped = false;
  const isNamed = () => !isInside && depth <= path.length;
  for await (const chunk of chunks) {
    let from = 0;
    const collect = (to: number) => {
      (isInside ? element : rest).add(chunk.subarray(from, to));
      from = to;
    };
    const elementEnd = (at: number): BodyPart => {
      collect(at);
      return { kind: "element", number: ++number, bytes: element.take() };
    };
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (inString) {
        if (isNamed()) text.add(chunk.subarray(at, at + 1));
        if (isEscaped) isEscaped = false;
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote) {
          inString = false;
          if (isNamed()) names[depth] = (text.take() ?? nothing).subarray(0, -1).toString();
        }
      } else if (byte === quote) inString = true;
      else if (byte === openBrace || byte === openBracket) {
        const isArray = byte === openBracket && depth === path.length && !isInside;
        if (isArray && path.every((name, index) => names[index + 1] === name)) {
          collect(at + 1);
          isInside = true;
        }
        depth++;
        if (isNamed()) names[depth] = "";
      } else if (byte === closeBrace || byte === closeBracket) {
        if (isInside && depth === insideDepth) {
          const last = elementEnd(at) as InputLine & BodyPart;
          if (last.bytes === undefined || !isBlank(last.bytes)) yield last;
          if (last.bytes === undefined) return;
          isInside = false;
        }
        depth--;
      } else if (byte === comma && isInside && depth === insideDepth) {
        const part = elementEnd(at);
        yield part;
        if (part.bytes === undefined) return;
        from = at + 1;
      }
    }
    collect(chunk.length);
    if (element.isOver) yield { kind: "element", number: number + 1, bytes: undefined };
    if (element.isOver || rest.isOver) return;
  }
  const bytes = rest.take();
  if (depth === 0 && bytes !== undefined && bytes.length > 0) yield { kind: "rest", bytes };
}
