/**
 * Finds members of a JSON object in its bytes without parsing it (RFC 8259), so that one value can
 * be read or replaced while all other bytes stay unchanged: unknown fields, number formats, order
 * and white space.
 */
import { joined } from "../joined.ts";
import {
  backslash,
  closeBrace,
  closeBracket,
  colon,
  comma,
  endOfString,
  endOfValue,
  isSpace,
  openBrace,
  openBracket,
  quote,
  skipSpace,
} from "./bytes.ts";

export interface Span {
  /** Offset of the value's first byte. */
  start: number;
  /** Offset after the value's last byte. */
  end: number;
}

/** The bytes in place of those of a span. */
export type Edit = Span & { by: Buffer };

/**
 * A member's value, and the offset where the member begins. For an array element both are the same.
 */
interface MemberSpan extends Span {
  /** Offset of the opening quote of the member's name. */
  nameStart: number;
}

interface NamedSpan<Name extends string> extends MemberSpan {
  name: Name;
}

export interface ObjectSpans<Name extends string> {
  /** The last member of each name, which JSON.parse would take. */
  members: Partial<Record<Name, Span>>;
  /** All members with the requested names, in order, including repeated ones. */
  all: NamedSpan<Name>[];
  /** Offset of the closing brace. */
  close: number;
  /** The object has no members. */
  empty: boolean;
}

const nothing = Buffer.alloc(0);

/**
 * The members of the outermost object with one of the given names (at most 127 bytes each, ASCII).
 * Undefined if the bytes are not an object, break off, or have more than `membersMax` members.
 * Checks only the structure around the members, not inside their values. Time is linear in the
 * bytes; strings are skipped natively.
 */
export function objectSpansOf<Name extends string>(
  bytes: Buffer,
  names: readonly Name[],
  membersMax = Number.POSITIVE_INFINITY,
): ObjectSpans<Name> | undefined {
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openBrace) return undefined;
  const members: Partial<Record<Name, Span>> = {};
  const all: NamedSpan<Name>[] = [];
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

/**
 * The elements of an array; undefined if the bytes are not an array or break off. Checks only the
 * structure around the elements.
 */
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
 * The spans of a member of an already parsed object. Same result as objectSpansOf, without a scan
 * if the name occurs only once in the bytes and so cannot belong to another member. `name` is ASCII
 * without escapes.
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
  const cachedName = quotedNames.get(name);
  if (cachedName !== undefined) return cachedName;
  const quoted = Buffer.from(`"${name}"`);
  quotedNames.set(name, quoted);
  return quoted;
}

/** Returns the same bytes, other bytes, or undefined to remove the value. */
export type Change = (value: Buffer) => Buffer | undefined;

/**
 * The object with every member of this name changed, including repeated ones; the same bytes if
 * nothing changes.
 */
export function withMembers(bytes: Buffer, name: string, change: Change): Buffer {
  return changed(bytes, objectSpansOf(bytes, [name])?.all ?? [], change);
}

/**
 * The object with these members (named in ASCII without escapes) set to JSON values: replaced where
 * they are, also repeated ones, and added where they are not. The same bytes if they are not an
 * object.
 */
export function withValues(bytes: Buffer, values: Readonly<Record<string, Buffer>>): Buffer {
  const names = Object.keys(values);
  const spans = names.length === 0 ? undefined : objectSpansOf(bytes, names);
  return spans === undefined ? bytes : withValuesAt(bytes, spans, values);
}

/** The same, for an object whose members of these names have been found. */
export function withValuesAt(
  bytes: Buffer,
  spans: ObjectSpans<string>,
  values: Readonly<Record<string, Buffer>>,
): Buffer {
  const edits: Edit[] = [];
  for (const { name, start, end } of spans.all) {
    const by = values[name];
    if (by !== undefined) edits.push({ start, end, by });
  }
  const added: Buffer[] = [];
  for (const name of Object.keys(values))
    if (spans.members[name] === undefined)
      added.push(Buffer.from(`${spans.empty && added.length === 0 ? "" : ","}"${name}":`), values[name] as Buffer);
  if (added.length > 0) edits.push({ start: spans.close, end: spans.close, by: Buffer.concat(added) });
  return replaceSpans(bytes, edits);
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

function changed(bytes: Buffer, members: readonly MemberSpan[], change: Change): Buffer {
  const replacements: Edit[] = [];
  const removed: MemberSpan[] = [];
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
export function replaceSpans(bytes: Buffer, replacements: readonly Edit[]): Buffer {
  return joined(chunksOf(bytes, replacements));
}

/**
 * The same as a list of buffers, for callers that join them with others; one buffer if nothing
 * changes.
 */
export function chunksOf(bytes: Buffer, replacements: readonly Edit[]): Buffer[] {
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

/**
 * The replacements that remove these members of one object, or elements of one array, with their
 * commas; in order.
 */
export function removalsOf(bytes: Buffer, members: readonly MemberSpan[]): Edit[] {
  const removals: Edit[] = [];
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
export const isEmptyObject = (bytes: Buffer) => objectSpansOf(bytes, [])?.empty === true;

/** True if the span is the literal `null`. */
export const isNull = (bytes: Buffer, span: Span) => bytes[span.start] === 0x6e;

/** The name between two quotes, if it is one of `names`. */
export function nameOf<Name extends string>(
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

/**
 * Offset of the comma before the member or element that begins at `from`; `from` itself for the
 * first.
 */
function commaBefore(bytes: Buffer, from: number): number {
  let at = from - 1;
  while (isSpace(bytes[at])) at--;
  return bytes[at] === comma ? at : from;
}

/** The value at a path of members; undefined if there is none. */
export function memberSpanOf(bytes: Buffer, path: readonly string[]): Span | undefined {
  let [start, end] = [0, bytes.length];
  for (const name of path) {
    const inner = objectSpansOf(bytes.subarray(start, end), [name])?.members[name];
    if (inner === undefined) return undefined;
    [start, end] = [start + inner.start, start + inner.end];
  }
  return { start, end };
}
