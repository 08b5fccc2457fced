/**
 * Finds members of a JSON object in its bytes without parsing it (RFC 8259), so that one value can be read or replaced while all other bytes stay unchanged:
 * unknown fields, number formats, order and white space.
 */

import { isAscii } from "node:buffer";
import { knownNameBytesMax, namedLevelsMax } from "./bounds.ts";

/** Parses JSON in UTF-8; throws SyntaxError. ASCII is decoded as Latin-1, which V8 does nine times faster for megabytes. */
export const parseJson = (bytes: Buffer): unknown => JSON.parse(textOfJson(bytes));

const textOfJson = (bytes: Buffer): string => bytes.toString(isAscii(bytes) ? "latin1" : "utf8");

/** Matches numbers that a double may not hold: integers of many digits, and large powers. Losing a fraction's digits beyond the 16th does not matter. */
const longNumber = /(?:^|[^\d.])\d{16}|\d[eE]\+?\d{3}/;
/** https://github.com/tc39/proposal-json-parse-with-source */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
};

/**
 * Parses JSON so that numbers are written again exactly as they were. A number that a double cannot hold, such as an id of 19 digits, becomes an object with
 * its digits (JSON.rawJSON). Throws SyntaxError.
 */
export function parseExact(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text);
  return parse(text, (_key, value, { source = "" }) => {
    if (typeof value !== "number" || !longNumber.test(source)) return value;
    return Number.isSafeInteger(value) || String(value) === source ? value : rawJSON(source);
  });
}

/** The bytes as a JSON object with exact numbers; undefined if they are not one. */
export function parsedObject(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value = parseExact(textOfJson(bytes));
    return isObject(value) && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export interface Span {
  /** Offset of the value's first byte. */
  start: number;
  /** Offset after the value's last byte. */
  end: number;
}

/** A member's value, and the offset where the member begins. For an array element both are the same. */
interface Placed extends Span {
  /** Offset of the opening quote of the member's name. */
  nameStart: number;
}

interface Member<Name extends string> extends Placed {
  name: Name;
}

export interface ObjectSpans<Name extends string> {
  /** The last member of each name, which JSON.parse would take. */
  members: Partial<Record<Name, Span>>;
  /** All members with the requested names, in order, including repeated ones. */
  all: Member<Name>[];
  /** Offset of the closing brace. */
  close: number;
  /** The object has no members. */
  empty: boolean;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

const nothing = Buffer.alloc(0);
/** Strings up to this length are read byte by byte. */
const shortBytes = 32;

const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/**
 * The members of the outermost object with one of the given names (at most 127 bytes each, ASCII). Undefined if the bytes are not an object, break off, or have
 * more than `membersMax` members. Checks only the structure around the members, not inside their values. Time is linear in the bytes; strings are skipped
 * natively.
 */
export function objectSpansOf<Name extends string>(
  bytes: Buffer,
  names: readonly Name[],
  membersMax = Number.POSITIVE_INFINITY,
): ObjectSpans<Name> | undefined {
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openBrace) return undefined;
  const members: Partial<Record<Name, Span>> = {};
  const all: Member<Name>[] = [];
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === closeBrace) return { members, all, close: at, empty: true };
  for (let count = 1; ; count++) {
    if (bytes[at] !== quote || count > membersMax) return undefined;
    const nameStart = at;
    const nameEnd = endOfString(bytes, at);
    if (nameEnd < 0) return undefined;
    const name = nameEnd - at <= 128 * 6 ? nameOf(bytes, at + 1, nameEnd - 1, names) : undefined;
    at = skipSpace(bytes, nameEnd);
    if (bytes[at] !== colon) return undefined;
    const start = skipSpace(bytes, at + 1);
    const end = endOfValue(bytes, start);
    if (end < 0) return undefined;
    if (name !== undefined) {
      const member = { name, nameStart, start, end };
      members[name] = member;
      all.push(member);
    }
    at = skipSpace(bytes, end);
    if (bytes[at] === closeBrace) return { members, all, close: at, empty: false };
    if (bytes[at] !== comma) return undefined;
    at = skipSpace(bytes, at + 1);
  }
}

/** The elements of an array; undefined if the bytes are not an array or break off. Checks only the structure around the elements. */
export function elementSpansOf(bytes: Buffer): Span[] | undefined {
  const elements: Span[] = [];
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openBracket) return undefined;
  at = skipSpace(bytes, at + 1);
  if (bytes[at] === closeBracket) return elements;
  for (;;) {
    const end = endOfValue(bytes, at);
    if (end < 0) return undefined;
    elements.push({ start: at, end });
    at = skipSpace(bytes, end);
    if (bytes[at] === closeBracket) return elements;
    if (bytes[at] !== comma) return undefined;
    at = skipSpace(bytes, at + 1);
  }
}

/**
 * The spans of a member of an already parsed object. Same result as objectSpansOf, without a scan if the name occurs only once in the bytes and so cannot
 * belong to another member. `name` is ASCII without escapes.
 */
export function memberSpansOf(bytes: Buffer, name: string, parsed: Readonly<Record<string, unknown>>): Span[] {
  if (!Object.hasOwn(parsed, name)) return [];
  const quoted = quotedOf(name);
  const at = bytes.indexOf(quoted);
  if (at >= 0 && bytes.indexOf(quoted, at + quoted.length) < 0) {
    const start = skipSpace(bytes, skipSpace(bytes, at + quoted.length) + 1);
    return [{ start, end: endOfValue(bytes, start) }];
  }
  return objectSpansOf(bytes, [name])?.all ?? [];
}

const quotedNames = new Map<string, Buffer>();

/** A member's name in quotes, cached; names come only from the gateway's own code. */
function quotedOf(name: string): Buffer {
  const known = quotedNames.get(name);
  if (known !== undefined) return known;
  const quoted = Buffer.from(`"${name}"`);
  quotedNames.set(name, quoted);
  return quoted;
}

/** Returns the same bytes, other bytes, or undefined to remove the value. */
type Change = (value: Buffer) => Buffer | undefined;

/** The object with every member of this name changed, including repeated ones; the same bytes if nothing changes. */
export function withMembers(bytes: Buffer, name: string, change: Change): Buffer {
  return changed(bytes, objectSpansOf(bytes, [name])?.all ?? [], change);
}

/** The object with these members (named in ASCII without escapes) set to JSON values: replaced where they are, also repeated ones, and added where they are not. The same bytes if they are not an object. */
export function withValues(bytes: Buffer, values: Readonly<Record<string, Buffer>>): Buffer {
  const spans = objectSpansOf(bytes, Object.keys(values));
  if (spans === undefined) return bytes;
  const missing = Object.entries(values).filter(([name]) => spans.members[name] === undefined);
  const added = missing.map(([name, value], place) => [
    Buffer.from(`${spans.empty && place === 0 ? "" : ","}"${name}":`),
    value,
  ]);
  return replaceSpans(bytes, [
    ...spans.all.map(({ name, start, end }) => ({ start, end, by: values[name] as Buffer })),
    { start: spans.close, end: spans.close, by: Buffer.concat(added.flat()) },
  ]);
}

/** The array with its elements changed; the same bytes if nothing changes. */
export function withElements(bytes: Buffer, change: Change): Buffer {
  const elements = elementSpansOf(bytes) ?? [];
  return changed(
    bytes,
    elements.map(({ start, end }) => ({ nameStart: start, start, end })),
    change,
  );
}

function changed(bytes: Buffer, members: readonly Placed[], change: Change): Buffer {
  const replacements: (Span & { by: Buffer })[] = [];
  const removed: Placed[] = [];
  for (const member of members) {
    const value = bytes.subarray(member.start, member.end);
    const by = change(value);
    if (by === undefined) removed.push(member);
    else if (by !== value) replacements.push({ start: member.start, end: member.end, by });
  }
  if (removed.length === 0 && replacements.length === 0) return bytes;
  const all = [...replacements, ...removalsOf(bytes, removed)];
  return replaceSpans(
    bytes,
    all.sort((left, right) => left.start - right.start),
  );
}

/** The bytes with every given span replaced. Spans must be in order and must not overlap. */
export function replaceSpans(bytes: Buffer, replacements: readonly (Span & { by: Buffer })[]): Buffer {
  const [first, ...others] = chunksOf(bytes, replacements) as [Buffer, ...Buffer[]];
  return others.length === 0 ? first : Buffer.concat([first, ...others]);
}

/** The same as a list of buffers, for callers that join them with others; one buffer if nothing changes. */
export function chunksOf(bytes: Buffer, replacements: readonly (Span & { by: Buffer })[]): Buffer[] {
  const parts: Buffer[] = [];
  let from = 0;
  for (const { start, end, by } of replacements) {
    if (by.length === end - start && bytes.compare(by, 0, by.length, start, end) === 0) continue;
    parts.push(bytes.subarray(from, start), by);
    from = end;
  }
  parts.push(from === 0 ? bytes : bytes.subarray(from));
  return parts;
}

/** The replacements that remove these members of one object, or elements of one array, with their commas; in order. */
export function removalsOf(bytes: Buffer, members: readonly Placed[]): (Span & { by: Buffer })[] {
  const removals: (Span & { by: Buffer })[] = [];
  let next = 0;
  for (let member = members[next++]; member !== undefined; member = members[next++]) {
    const first = member.nameStart;
    let behind = skipSpace(bytes, member.end);
    for (
      let neighbour = members[next];
      bytes[behind] === comma && neighbour?.nameStart === skipSpace(bytes, behind + 1);
      neighbour = members[++next]
    )
      behind = skipSpace(bytes, neighbour.end);
    const isLast = bytes[behind] !== comma;
    removals.push({
      start: isLast ? commaBefore(bytes, first) : first,
      end: isLast ? behind : behind + 1,
      by: nothing,
    });
  }
  return removals;
}

/** A string that is a member's value. Its `path` and `objects` are valid only until the next one is taken. */
export class NamedString implements Span {
  readonly start: number;
  readonly end: number;
  /**
   * The member names that lead to it, without array indexes, such as `messages.content.image_url.url`. A name that is not a short one of ASCII letters is left
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

  /** For each enclosing object, innermost first: the offset of the object, and of the member's name in it. */
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
 * Every string that is the value of a member with one of these names (ASCII), in order and within 40 levels, including repeated members. `spelled` normalises
 * names. Requires valid JSON; one pass over the bytes.
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
    const told = typeof name === "string" && plainName.test(name) ? spelled(name) : "";
    return level === 0 ? told : `${frame.names}.${told}`;
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

export interface JsonBounds {
  /** Levels of objects and arrays. */
  depthMax: number;
  /** Objects and arrays. */
  containersMax: number;
  /** Members of all objects together. Distinct names take the longest to parse per byte. */
  membersMax: number;
  /** Values of every kind, of members and elements; an empty object or array counts as two. */
  valuesMax: number;
}

/** The first bound that the bytes exceed; undefined if none. Requires valid JSON; linear in the bytes. */
export function boundBroken(
  bytes: Buffer,
  { depthMax, containersMax, membersMax, valuesMax }: JsonBounds,
): keyof JsonBounds | undefined {
  let depth = 0;
  let containers = 0;
  let members = 0;
  /** No comma precedes the first value of a container, so it is counted with its container, which may be empty. */
  let commas = 0;
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case quote:
        at = endOfString(bytes, at) - 1;
        if (at < 0) return undefined;
        break;
      case openBrace:
      case openBracket:
        if (++depth > depthMax) return "depthMax";
        if (++containers > containersMax) return "containersMax";
        break;
      case closeBrace:
      case closeBracket:
        depth--;
        break;
      case colon:
        if (++members > membersMax) return "membersMax";
        break;
      case comma:
        if (++commas + containers > valuesMax) return "valuesMax";
        break;
    }
  }
  return undefined;
}

/** As `boundBroken`, for a text: whether it exceeds a bound. */
export function exceedsBounds(text: string, { depthMax, containersMax, membersMax, valuesMax }: JsonBounds): boolean {
  // Each level needs an opening and a closing bracket; each container and each member two characters as well.
  if (text.length <= 2 * Math.min(depthMax, containersMax, membersMax, valuesMax)) return false;
  let depth = 0;
  let containers = 0;
  let members = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        for (at++; at < text.length && text.charCodeAt(at) !== quote; at++) if (text.charCodeAt(at) === backslash) at++;
        break;
      case openBrace:
      case openBracket:
        if (++depth > depthMax || ++containers > containersMax) return true;
        break;
      case closeBrace:
      case closeBracket:
        depth--;
        break;
      case colon:
        if (++members > membersMax) return true;
        break;
      case comma:
        if (++commas + containers > valuesMax) return true;
        break;
    }
  }
  return false;
}

/** The parsed value of a span; undefined if it is not JSON. */
export function readSpan(bytes: Buffer, span: Span): unknown {
  try {
    return JSON.parse(bytes.toString("utf8", span.start, span.end));
  } catch {
    return undefined;
  }
}

/** True for an array without elements. */
export function isEmptyArray(bytes: Buffer): boolean {
  const at = skipSpace(bytes, 0);
  return bytes[at] === openBracket && bytes[skipSpace(bytes, at + 1)] === closeBracket;
}

/** True for an object without members. */
export const isEmptyObject = (bytes: Buffer): boolean => objectSpansOf(bytes, [])?.empty === true;

/** True if the span is the literal `null`. */
export const isNull = (bytes: Buffer, span: Span): boolean => bytes[span.start] === 0x6e;

/** The name between two quotes, if it is one of `names`. */
function nameOf<Name extends string>(
  bytes: Buffer,
  start: number,
  end: number,
  names: readonly Name[],
): Name | undefined {
  for (const name of names) if (name.length === end - start && isText(bytes, start, name)) return name;
  for (let at = start; at < end; at++)
    if (bytes[at] === backslash) {
      const key = readSpan(bytes, { start: start - 1, end: end + 1 });
      return names.find((name) => name === key);
    }
  return undefined;
}

/** True if this ASCII text begins at `from`. */
function isText(bytes: Buffer, from: number, text: string): boolean {
  for (let at = 0; at < text.length; at++) if (bytes[from + at] !== text.charCodeAt(at)) return false;
  return true;
}

function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at++;
  return at;
}

/** Offset of the comma before the member or element that begins at `from`; `from` itself for the first. */
function commaBefore(bytes: Buffer, from: number): number {
  let at = from - 1;
  while (isSpace(bytes[at])) at--;
  return bytes[at] === comma ? at : from;
}

/**
 * Offset after the closing quote of the string that opens at `from`; -1 if it never closes. A native search is only faster for long stretches, so bytes are
 * read one by one where quotes are close together, as in short strings and in those with many escaped quotes.
 */
function endOfString(bytes: Buffer, from: number): number {
  let at = from + 1;
  for (;;) {
    for (const near = Math.min(at + shortBytes, bytes.length); at < near; at++) {
      if (bytes[at] === quote) return at + 1;
      if (bytes[at] === backslash) at++;
    }
    at = bytes.indexOf(quote, at);
    if (at < 0) return -1;
    let slashes = 0;
    while (bytes[at - 1 - slashes] === backslash) slashes++;
    if (slashes % 2 === 0) return at + 1;
    at++;
  }
}

/** Offset after the value that starts at `from`; -1 if it breaks off. */
function endOfValue(bytes: Buffer, from: number): number {
  const first = bytes[from];
  if (first === quote) return endOfString(bytes, from);
  if (first !== openBrace && first !== openBracket) {
    let at = from;
    while (
      at < bytes.length &&
      bytes[at] !== comma &&
      bytes[at] !== closeBrace &&
      bytes[at] !== closeBracket &&
      !isSpace(bytes[at])
    )
      at++;
    return at > from ? at : -1;
  }
  let depth = 0;
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) {
      at = endOfString(bytes, at) - 1;
      if (at < 0) return -1;
    } else if (byte === openBrace || byte === openBracket) depth++;
    else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return at + 1;
  }
  return -1;
}

/** JSON text on one line. Escapes the two line separators (U+2028 and U+2029) that JSON allows unescaped and that some readers treat as line breaks. */
export function jsonOf(value: unknown): string {
  const text = JSON.stringify(value);
  if (!separators.test(text)) return text;
  // Ten times faster than a replacement if there are millions of them.
  return text.split("\u2028").join("\\u2028").split("\u2029").join("\\u2029");
}

const separators = /[\u2028\u2029]/;

/** The value's JSON in UTF-8. */
export const jsonBytesOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** An object or an array. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

/** False for undefined and null. */
export const isGiven = (value: unknown): boolean => value !== undefined && value !== null;

/** The value if it is an object, otherwise {}. For reading untrusted values. */
export const objectOf = (value: unknown): Record<string, unknown> =>
  isObject(value) && !Array.isArray(value) ? value : {};

/** The value if it is a list, otherwise []. */
export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** The value if it is a non-empty string. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Detects when the chunks of a text add up to a whole JSON object or array, in one pass. */
export class JsonProgress {
  #depth = 0;
  #begun = false;
  #inText = false;
  #escaped = false;

  push(chunk: string): void {
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
      } else if (code === closeBrace || code === closeBracket) this.#depth--;
    }
  }

  get isBegun(): boolean {
    return this.#begun;
  }

  get isWhole(): boolean {
    return this.#begun && this.#depth <= 0 && !this.#inText;
  }
}
