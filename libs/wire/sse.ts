/**
 * Reads server-sent events from bytes split anywhere, with any line ending
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream), and two
 * habits of servers: a field named `error`, and events without a blank line between them. Each
 * dialect writes its own events.
 */
import { dataLinesMax, loosePartsMax } from "./bounds.ts";
import { joined } from "./joined.ts";
import { closeBrace, openBrace } from "./json/bytes.ts";
import { parsedObject } from "./json/parse.ts";

export interface SseEvent {
  /** The last `event:` field; undefined if there was none. */
  event: string | undefined;
  /**
   * All `data:` fields joined by a line feed; never shared with the input once `push` returns,
   * unless it is a part of one chunk.
   */
  data: Buffer;
}

export const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const colon = 0x3a;
const space = 0x20;
const lineFeedByte = Buffer.from([lineFeed]);

/** An event exceeded one of its bounds. */
export class SseEventTooLarge extends Error {}

/**
 * A reader for one answer. `eventBytesMax` bounds the bytes that it buffers. Events without data
 * (comments, bare fields) are not reported.
 */
export class SseReader {
  readonly #eventBytesMax: number;
  /** The chunks of an unfinished line, joined at its end or when there are many. */
  #parts: Buffer[] = [];
  #looseParts = 0;
  #partsBytes = 0;
  #data: Buffer[] = [];
  #dataLines = 0;
  #dataBytes = 0;
  #event: string | undefined;
  #started = false;
  #skipLineFeed = false;

  constructor(eventBytesMax: number) {
    this.#eventBytesMax = eventBytesMax;
  }

  /** Bytes of the unfinished event. */
  get bufferedBytes(): number {
    return this.#partsBytes + this.#dataBytes;
  }

  /**
   * The events that these bytes complete. Throws SseEventTooLarge, after which the reader must not
   * be used.
   */
  push(chunk: Buffer): SseEvent[] {
    const events: SseEvent[] = [];
    const bytes = this.#withoutCarriageReturns(chunk);
    let from = 0;
    for (;;) {
      const end = bytes.indexOf(lineFeed, from);
      if (end < 0) break;
      if (end === from && this.#parts.length === 0) this.#blankLine(events);
      else this.#line(this.#joined(bytes.subarray(from, end)), events);
      from = end + 1;
    }
    if (from < bytes.length) this.#buffer(bytes.subarray(from));
    if (this.bufferedBytes > this.#eventBytesMax)
      throw new SseEventTooLarge(`an event of more than ${this.#eventBytesMax} bytes`);
    return events;
  }

  /** The last event of a stream that stops without a blank line, if there is one. */
  end(): SseEvent[] {
    const events: SseEvent[] = [];
    if (this.#partsBytes > 0) this.#line(this.#joined(Buffer.alloc(0)), events);
    this.#line(Buffer.alloc(0), events);
    return events;
  }

  #buffer(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.#partsBytes += bytes.length;
    if (++this.#looseParts < loosePartsMax) return;
    this.#parts.push(Buffer.concat(this.#parts.splice(-loosePartsMax)));
    this.#looseParts = 0;
  }

  #joined(tail: Buffer): Buffer {
    if (this.#parts.length === 0) return tail;
    const line = Buffer.concat([...this.#parts, tail]);
    this.#parts = [];
    this.#partsBytes = 0;
    this.#looseParts = 0;
    return line;
  }

  #withoutCarriageReturns(chunk: Buffer): Buffer {
    if (!this.#skipLineFeed && !chunk.includes(carriageReturn)) return chunk;
    const bytes = Buffer.allocUnsafe(chunk.length);
    let length = 0;
    for (const byte of chunk) {
      const afterReturn = this.#skipLineFeed;
      this.#skipLineFeed = byte === carriageReturn;
      if (byte === carriageReturn) bytes[length++] = lineFeed;
      else if (byte !== lineFeed || !afterReturn) bytes[length++] = byte;
    }
    return bytes.subarray(0, length);
  }

  /** It ends an event. */
  #blankLine(events: SseEvent[]): void {
    this.#started = true;
    if (this.#data.length > 0) events.push({ event: this.#event, data: joined(this.#data) });
    this.#data = [];
    this.#dataLines = 0;
    this.#dataBytes = 0;
    this.#event = undefined;
  }

  #line(bytes: Buffer, events: SseEvent[]): void {
    const line =
      !this.#started && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
    this.#started = true;
    if (line.length === 0) {
      this.#blankLine(events);
      return;
    }
    if (isField(line, "data")) this.#addData(fieldValueOf(line, "data"), events);
    else if (isField(line, "event")) this.#event = fieldValueOf(line, "event").toString("utf8");
    // llama.cpp wrote it until 2025. https://github.com/coddy-project/coddy-agent/pull/106
    else if (isField(line, "error") && line.length > "error".length) {
      this.#addData(fieldValueOf(line, "error"), events);
      this.#event = "error";
    }
  }

  #addData(value: Buffer, events: SseEvent[]): void {
    if (this.#data.length === 1 && this.#event === undefined && isWhole(this.#data[0] as Buffer))
      this.#blankLine(events);
    if (this.#data.length > 0) this.#data.push(lineFeedByte);
    this.#data.push(value);
    this.#dataBytes += value.length + 1;
    if (this.#dataBytes > this.#eventBytesMax)
      throw new SseEventTooLarge(`an event of more than ${this.#eventBytesMax} bytes`);
    if (++this.#dataLines > dataLinesMax)
      throw new SseEventTooLarge(`an event of more than ${dataLinesMax} data lines`);
  }
}

/**
 * True for a JSON object, which no further line can continue: it is an event of its own, from a
 * server that writes no blank line after it. https://github.com/anomalyco/opencode/issues/27365
 */
const isWhole = (line: Buffer) =>
  line[0] === openBrace && line.at(-1) === closeBrace && parsedObject(line) !== undefined;

/** True for a line with this field's name, alone or followed by a colon. */
function isField(line: Buffer, name: string): boolean {
  for (let at = 0; at < name.length; at++) if (line[at] !== name.charCodeAt(at)) return false;
  return line.length === name.length || line[name.length] === colon;
}

const fieldValueOf = (line: Buffer, name: string) =>
  line.subarray(line[name.length + 1] === space ? name.length + 2 : name.length + 1);
