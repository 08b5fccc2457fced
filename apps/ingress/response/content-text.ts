/**
 * Collects a body as text, up to a bound. In place of an image, a sound or other data in base64,
 * its size stands.
 */
import { contentBytesMax, dataLengthMin } from "#content/bounds.ts";

const space = 0x20;
const quote = 0x22;

/** Whether a byte is a character of base64 or base64url. */
const isOfBase64 = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[A-Za-z0-9+/=_-]/.test(String.fromCharCode(byte)) && byte < 0x80 ? 1 : 0,
);

/**
 * Streams: chunks may end anywhere. Its work is bounded by what it collects, not by the size of the
 * data that it leaves out.
 */
export class ContentText {
  /** Takes memory for so many bytes in total; false if there is none. */
  readonly #hold: (bytes: number) => boolean;
  #parts: Buffer[] = [];
  #size = 0;
  #bytes = 0;
  #isFull = false;
  /** The characters of base64 before the next one. Characters of earlier chunks wait in `#run`. */
  #runLength = 0;
  #run: Buffer[] = [];
  /** The length of the data that is being left out; 0 for none. */
  #dataLength = 0;

  constructor(hold: (bytes: number) => boolean) {
    this.#hold = hold;
  }

  push(chunk: Buffer): void {
    this.#bytes += chunk.length;
    for (let at = 0; at < chunk.length && !this.#isFull; )
      at = this.#dataLength > 0 ? this.#leaveOut(chunk, at) : this.#collect(chunk, at);
  }

  /** Counts bytes that are not text. */
  skip(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Call it once, at the end. */
  result(): { text: string; bytes: number; isCut: boolean } {
    if (this.#dataLength > 0) this.#markData();
    this.#endRun();
    return { text: Buffer.concat(this.#parts).toString("utf8"), bytes: this.#bytes, isCut: this.#isFull };
  }

  /**
   * From here to the end of the chunk, or to the place where data is known to have begun. Returns
   * where it stopped.
   */
  #collect(chunk: Buffer, from: number): number {
    // The rest of the bound limits the work.
    const end = Math.min(chunk.length, from + contentBytesMax + dataLengthMin);
    let runFrom = from;
    for (let at = from; at < end; at++) {
      if (isOfBase64[chunk[at] as number] === 1) {
        if (++this.#runLength < dataLengthMin) continue;
        this.#keep(chunk.subarray(from, runFrom));
        this.#run = [];
        this.#runLength = 0;
        this.#dataLength = dataLengthMin;
        return at + 1;
      }
      this.#endRun();
      runFrom = at + 1;
    }
    this.#keep(chunk.subarray(from, runFrom));
    if (runFrom < end) this.#run.push(Buffer.from(chunk.subarray(runFrom, end)));
    return end;
  }

  /** Data ends with its string, or at a space. */
  #leaveOut(chunk: Buffer, from: number): number {
    const ends = [chunk.indexOf(quote, from), chunk.indexOf(space, from)].filter((at) => at >= 0);
    const end = Math.min(chunk.length, ...ends);
    this.#dataLength += end - from;
    if (ends.length > 0) this.#markData();
    return end;
  }

  #markData(): void {
    // Four characters are three bytes.
    this.#keep(Buffer.from(`[${Math.floor((this.#dataLength * 3) / 4)} bytes]`));
    this.#dataLength = 0;
  }

  #endRun(): void {
    this.#runLength = 0;
    if (this.#run.length === 0) return;
    const run = this.#run;
    this.#run = [];
    for (const bytes of run) this.#keep(bytes);
  }

  /** Keeps a copy, which does not hold on to the chunk that the bytes are a part of. */
  #keep(bytes: Buffer): void {
    if (bytes.length === 0 || this.#isFull) return;
    const kept = bytes.subarray(0, contentBytesMax - this.#size);
    if (kept.length < bytes.length) this.#isFull = true;
    if (!this.#hold(this.#size + kept.length)) {
      this.#isFull = true;
      return;
    }
    this.#size += kept.length;
    this.#parts.push(Buffer.from(kept));
  }
}
