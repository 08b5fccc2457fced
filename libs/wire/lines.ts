/** Splits a stream of bytes into lines, within bounded memory. */

const newline = 0x0a;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
export const noBytes = Buffer.alloc(0);

export interface InputLine {
  /** Counts from 1, blank lines included. */
  number: number;
  /** Undefined for a line that is longer than the bound. */
  bytes: Buffer | undefined;
}

/** Collects the bytes of one line or element; drops them once they exceed the bound. */
export class Collector {
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
    const [first = noBytes] = this.#parts;
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

export const isBlank = (bytes: Buffer): boolean => {
  for (const byte of bytes) if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  return true;
};
