/** Finds the strings of members with certain names anywhere in JSON, without parsing it. */
import { knownNameBytesMax, namedLevelsMax } from "../bounds.ts";
import { closeBrace, closeBracket, comma, endOfString, openBrace, openBracket, quote } from "./bytes.ts";
import { nameOf, readSpan, type Span } from "./spans.ts";

/**
 * A string that is a member's value. Its `path` and `objects` are valid only until the next one is
 * taken.
 */
export class NamedString implements Span {
  readonly start: number;
  readonly end: number;
  /**
   * The member names that lead to it, without array indexes, such as
   * `messages.content.image_url.url`. A name that is not a short one of ASCII letters is left
   * blank.
   */
  readonly names: string;
  readonly #bytes: Buffer;
  readonly #frames: readonly Frame[];

  constructor(bytes: Buffer, frames: readonly Frame[], { start, end }: Span, names: string) {
    this.start = start;
    this.end = end;
    this.names = names;
    this.#bytes = bytes;
    this.#frames = frames;
  }

  /** From the outermost value to the member: names and indexes. */
  get path(): (string | number)[] {
    return this.#frames.map(({ isObject, place, nameStart, nameEnd }) =>
      isObject ? String(readSpan(this.#bytes, { start: nameStart, end: nameEnd })) : place,
    );
  }

  /**
   * For each enclosing object, innermost first: the offset of the object, and of the member's name
   * in it.
   */
  get objects(): { start: number; nameStart: number }[] {
    return this.#frames
      .filter(({ isObject }) => isObject)
      .map(({ start, nameStart }) => ({ start, nameStart }))
      .toReversed();
  }
}

interface Frame {
  start: number;
  isObject: boolean;
  /** The next string is a name. */
  expectsName: boolean;
  nameStart: number;
  nameEnd: number;
  place: number;
  /** The names that lead here; computed on first use. */
  names: string | undefined;
}

const plainName = /^[A-Za-z0-9_]+$/;

/**
 * Every string that is the value of a member with one of these names (ASCII), in order and within
 * 40 levels, including repeated members. `spelled` normalises names. Requires valid JSON; one pass
 * over the bytes.
 */
export function* namedStringsOf(
  bytes: Buffer,
  names: readonly string[],
  spelled = (name: string) => name,
): Generator<NamedString, void> {
  const frames: Frame[] = [];
  /** The member names that lead to this frame. They do not change while the frame is open. */
  const namesTo = (level: number): string => {
    const frame = frames[level];
    if (frame === undefined) return "";
    frame.names ??= namesTo(level - 1);
    if (!frame.isObject) return frame.names;
    const { nameStart, nameEnd } = frame;
    const name =
      nameEnd - nameStart > knownNameBytesMax ? undefined : readSpan(bytes, { start: nameStart, end: nameEnd });
    const label = typeof name === "string" && plainName.test(name) ? spelled(name) : "";
    return level === 0 ? label : `${frame.names}.${label}`;
  };
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    const frame = frames.at(-1);
    if (byte === quote) {
      const end = endOfString(bytes, at);
      if (end < 0) return;
      if (frame?.expectsName === true) {
        frame.expectsName = false;
        frame.nameStart = at;
        frame.nameEnd = end;
      } else if (
        frame?.isObject === true &&
        frames.length <= namedLevelsMax &&
        nameOf(bytes, frame.nameStart + 1, frame.nameEnd - 1, names) !== undefined
      )
        yield new NamedString(bytes, frames, { start: at, end }, namesTo(frames.length - 1));
      at = end - 1;
    } else if (byte === openBrace || byte === openBracket) {
      const isObject = byte === openBrace;
      frames.push({
        start: at,
        isObject,
        expectsName: isObject,
        nameStart: -1,
        nameEnd: -1,
        place: 0,
        names: undefined,
      });
    } else if (byte === closeBrace || byte === closeBracket) frames.pop();
    else if (byte === comma && frame !== undefined) {
      frame.expectsName = frame.isObject;
      frame.place++;
    }
  }
}
