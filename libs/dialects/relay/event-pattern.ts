/**
 * Most events of a stream differ from the one before only in the text that they add, in random
 * padding and in their number. They are recognised by their bytes and relayed without parsing.
 */

import { backslash, quote } from "#wire/json/bytes.ts";
import type { JsonObject } from "#wire/json/parse.ts";
import { type Edit, memberSpansOf, replaceSpans, type Span } from "#wire/json/spans.ts";
import { lineFeed, type SseEvent } from "#wire/sse.ts";
import { patternsMax } from "../bounds.ts";

/** An event that adds nothing but this text, however it is relayed. */
export interface TextDelta {
  /** Not empty. */
  text: string;
  /** The text is thinking. */
  isThought: boolean;
  /** The event's name that a caller receives, if it has one. */
  name?: string | undefined;
  /** The relay's changes of the data, in order. */
  edits: readonly Edit[];
}

/** Random text that OpenAI adds, so that the length of an event does not tell that of its text. */
const paddingName = "obfuscation";
const numberName = "sequence_number";
const digitsMax = 15;
const [zero, nine] = [0x30, 0x39];
const nothing = Buffer.alloc(0);
const dataName = Buffer.from("data: ");

/** The bytes before and after the data of an event that a caller receives. */
export const eventHeadOf = (name: string | undefined) =>
  name === undefined ? dataName : Buffer.from(`event: ${name}\ndata: `);
export const eventTail = Buffer.from("\n\n");

/** A value that differs from event to event: digits, or the text between two quotes. */
interface Gap extends Span {
  isNumber: boolean;
}

/** The pattern of the last event of a stream that added nothing but text. */
export class EventPatterns {
  #pattern: EventPattern | undefined;
  /** Patterns since one matched an event. */
  #unused = 0;

  /** The pattern, if the event is one of it: `text` and `relayed` are then that event's. */
  match(event: SseEvent): EventPattern | undefined {
    const pattern = this.#pattern;
    if (pattern?.matches(event) !== true) return undefined;
    this.#unused = 0;
    return pattern;
  }

  /**
   * An event that did not match was read. Without a `delta` no event matches until the next call.
   * With one, those match that differ only in its text, or, if its text cannot be located, those
   * that did before. True if the pattern is that of this event.
   */
  learn(event: SseEvent, value: JsonObject, delta: TextDelta | undefined): boolean {
    if (delta === undefined) this.#pattern = undefined;
    const mayMake = delta !== undefined && this.#unused < patternsMax;
    const pattern = mayMake ? EventPattern.of(event, value, delta) : undefined;
    if (pattern === undefined) return false;
    this.#pattern = pattern;
    this.#unused++;
    return true;
  }
}

/** The bytes of an event around its gaps. */
class EventPattern {
  readonly isThought: boolean;
  readonly #name: string | undefined;
  readonly #gaps: readonly Gap[];
  /** The bytes between the gaps, as the upstream sends them and as the caller receives them. */
  readonly #incoming: readonly Buffer[];
  readonly #outgoing: readonly Buffer[];
  readonly #outgoingBytes: number;
  /** The gaps of the last event, and of these the one with its text. */
  readonly #spans: readonly Span[];
  readonly #textSpan: Span;
  #data: Buffer = nothing;

  private constructor(
    name: string | undefined,
    gaps: readonly Gap[],
    { textPlace, incoming, outgoing, isThought }: Parts & Pick<TextDelta, "isThought">,
  ) {
    this.isThought = isThought;
    this.#name = name;
    this.#gaps = gaps;
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#outgoingBytes = outgoing.reduce((sum, { length }) => sum + length, 0);
    this.#spans = gaps.map(() => ({ start: 0, end: 0 }));
    this.#textSpan = this.#spans[textPlace] as Span;
  }

  /**
   * The pattern of an event whose data is this value. Undefined if the text cannot be located by
   * its bytes alone: it, or another string, has an escape, or the same string occurs twice.
   */
  static of(
    { event, data }: SseEvent,
    value: JsonObject,
    { text, isThought, name, edits }: TextDelta,
  ): EventPattern | undefined {
    if (data.includes(backslash) || data.includes(lineFeed)) return undefined;
    const textGap = stringGapOf(data, text);
    if (textGap === undefined) return undefined;
    const gaps = [textGap];
    const { [paddingName]: padding, [numberName]: number } = value;
    if (typeof padding === "string") {
      const gap = stringGapOf(data, padding);
      if (gap !== undefined) gaps.push(gap);
    }
    const [digits, ...others] = typeof number === "number" ? memberSpansOf(data, numberName, value) : [];
    if (digits !== undefined && others.length === 0 && endOfDigits(data, digits.start) === digits.end)
      gaps.push({ ...digits, isNumber: true });
    gaps.sort((one, other) => one.start - other.start);
    const parts = partsOf(data, gaps, edits);
    if (parts === undefined) return undefined;
    const [first, ...rest] = parts.outgoing as [Buffer, ...Buffer[]];
    const outgoing = [Buffer.concat([eventHeadOf(name), first]), ...rest];
    outgoing.push(Buffer.concat([outgoing.pop() as Buffer, eventTail]));
    return new EventPattern(event, gaps, { ...parts, outgoing, textPlace: gaps.indexOf(textGap), isThought });
  }

  /** Whether the event is one of this pattern. */
  matches({ event, data }: SseEvent): boolean {
    if (event !== this.#name) return false;
    this.#data = data;
    let at = 0;
    for (let place = 0; ; place++) {
      const part = this.#incoming[place] as Buffer;
      const start = at + part.length;
      if (start > data.length || part.compare(data, at, start) !== 0) return false;
      const gap = this.#gaps[place];
      if (gap === undefined) return start === data.length;
      at = gap.isNumber ? endOfDigits(data, start) : endOfText(data, start);
      if (at === start) return false;
      const span = this.#spans[place] as Span;
      span.start = start;
      span.end = at;
    }
  }

  /** The text of the event that matched last. */
  get text(): string {
    const { start, end } = this.#textSpan;
    return this.#data.toString("utf8", start, end);
  }

  /** The bytes that a caller receives of the event that matched last. */
  get relayed(): Buffer {
    const data = this.#data;
    let size = this.#outgoingBytes;
    for (const { start, end } of this.#spans) size += end - start;
    const bytes = Buffer.allocUnsafe(size);
    let at = 0;
    for (const [place, part] of this.#outgoing.entries()) {
      at += part.copy(bytes, at);
      const span = this.#spans[place];
      if (span !== undefined) at += data.copy(bytes, at, span.start, span.end);
    }
    return bytes;
  }
}

interface Parts {
  incoming: readonly Buffer[];
  outgoing: readonly Buffer[];
  textPlace: number;
}

/** Undefined if an edit is not between two gaps. */
function partsOf(data: Buffer, gaps: readonly Gap[], edits: readonly Edit[]): Omit<Parts, "textPlace"> | undefined {
  const incoming: Buffer[] = [];
  const outgoing: Buffer[] = [];
  let edited = 0;
  for (let place = 0; place <= gaps.length; place++) {
    const from = gaps[place - 1]?.end ?? 0;
    const to = gaps[place]?.start ?? data.length;
    if (to < from) return undefined;
    const own = edits.filter(({ start, end }) => start >= from && end <= to);
    edited += own.length;
    const part = data.subarray(from, to);
    incoming.push(Buffer.from(part));
    outgoing.push(
      replaceSpans(
        Buffer.from(part),
        own.map(({ start, end, by }) => ({ start: start - from, end: end - from, by })),
      ),
    );
  }
  return edited === edits.length ? { incoming, outgoing } : undefined;
}

/** The only place of this string in the data, which has no escapes. */
function stringGapOf(data: Buffer, text: string): Gap | undefined {
  const quoted = Buffer.from(`"${text}"`);
  const at = data.indexOf(quoted);
  if (at < 0 || data.indexOf(quoted, at + 1) >= 0) return undefined;
  return { start: at + 1, end: at + quoted.length - 1, isNumber: false };
}

/** Offset of the quote after a text without escapes; `from` if there is none. */
function endOfText(data: Buffer, from: number): number {
  for (let at = from; at < data.length; at++) {
    const byte = data[at] as number;
    if (byte === quote) return at;
    if (byte === backslash || byte < 0x20) return from;
  }
  return from;
}

/** Offset after a whole number that is written as JSON requires; `from` if there is none. */
function endOfDigits(data: Buffer, from: number): number {
  let at = from;
  while (at - from <= digitsMax && (data[at] as number) >= zero && (data[at] as number) <= nine) at++;
  return at - from > digitsMax || (data[from] === zero && at - from > 1) ? from : at;
}
