/** Images and documents that a request names by address, in the caller's own bytes: found, and replaced by what was fetched, while every other byte stays. */

import { type AttachmentAddress, type Data, dataUrlOf } from "./attachments.ts";
import { addressLengthMax } from "./bounds.ts";
import { refuse } from "./field-support.ts";
import {
  jsonBytesOf,
  type NamedString,
  namedStringsOf,
  objectSpansOf,
  readSpan,
  removalsOf,
  replaceSpans,
  type Span,
} from "./json.ts";

type Edit = Span & { by: Buffer };

/** What to put in the place of an address; undefined to leave it. */
export type ReplaceAddress = (address: AttachmentAddress) => Data | undefined;

/** An address in a request's bytes, and the edits that put data in its place, in order. */
interface Place {
  part: AttachmentAddress["part"];
  edits(data: Data): Edit[];
}

export interface AttachmentFinder {
  /** Texts without which the bytes of a request hold no address, unless names are escaped. Short, with a rare character first: those are found fastest. */
  marks: readonly string[];
  /** The names of members whose values may be addresses. */
  names: readonly string[];
  /** A name as the format's documentation spells it, where it may be spelled in several ways. */
  spelled?(name: string): string;
  /** `path` has the names without the places, such as `messages.content.image_url.url`. Undefined for a string that is no source. */
  placeOf(path: string, bytes: Buffer, string: NamedString): Place | undefined;
}

/** A letter or underscore that is escaped: a name with one may be written so that no mark is found. */
const escapedLetter = /\\u00[4-7]/i;
const searchedAtOnce = 1 << 20;

/** V8 finds this in a text of Latin-1 five times as fast as Node does in bytes that are full of backslashes. */
function hasEscapedLetter(bytes: Buffer): boolean {
  for (let from = 0; from < bytes.length; from += searchedAtOnce)
    if (escapedLetter.test(bytes.toString("latin1", from, from + searchedAtOnce + 6))) return true;
  return false;
}

/**
 * The bytes with the addresses in them replaced. Throws Refusal, naming the field, where a source is given twice. A request without sources costs a few native
 * searches.
 */
export function withAddresses(
  bytes: Buffer,
  { marks, names, spelled = (name) => name, placeOf }: AttachmentFinder,
  replace: ReplaceAddress,
): Buffer {
  if (!marks.some((mark) => bytes.includes(mark)) && !hasEscapedLetter(bytes)) return bytes;
  const edits: Edit[] = [];
  let lastObject = -1;
  for (const string of namedStringsOf(bytes, names, spelled)) {
    if (isDataUrl(bytes, string)) continue;
    const place = placeOf(string.names, bytes, string);
    if (place === undefined) continue;
    const url = String(readSpan(bytes, string));
    if (/^\s*data:/i.test(url)) continue;
    const path = string.path.map((step) => (typeof step === "string" ? spelled(step) : step));
    const own = path.reduce<string>(
      (before, step) => (typeof step === "number" ? `${before}[${step}]` : before === "" ? step : `${before}.${step}`),
      "",
    );
    const object = enclosingObject(string, 0);
    const all = objectSpansOf(bytes.subarray(object), names)?.all.map(({ name }) => spelled(name)) ?? [];
    if (object === lastObject || all.length > new Set(all).size)
      refuse(own, "stands beside another address: give each in a part of its own");
    lastObject = object;
    const data = replace({ part: place.part, url, path: own });
    if (data !== undefined) edits.push(...place.edits(data));
  }
  return replaceSpans(
    bytes,
    edits.sort((left, right) => left.start - right.start),
  );
}

const dataUrlStart = Buffer.from("data:");
const isDataUrl = (bytes: Buffer, { start }: Span): boolean =>
  bytes.compare(dataUrlStart, 0, dataUrlStart.length, start + 1, start + 6) === 0;

/** Is this string an http(s) address, where it may also be base64? */
export const isHttp = (bytes: Buffer, string: Span): boolean =>
  string.end - string.start <= addressLengthMax && /^\s*https?:/i.test(String(readSpan(bytes, string)));

/** A place whose value is replaced by a data URL. */
export const dataUrlAt = ({ start, end }: Span, part: Place["part"]): Place => ({
  part,
  edits: (data) => [{ start, end, by: jsonBytesOf(dataUrlOf(data)) }],
});

/** Offset of an object around a string; 0 is the one that has it. */
export const enclosingObject = ({ objects }: NamedString, level: number): number => objects[level]?.start ?? 0;

/** A place that nothing can be put into. */
export const fixed = (part: "media" | "server"): Place => ({ part, edits: () => [] });

/**
 * The edits of an object that has the address: `value` members get other values, `instead` takes the place of the member `name`, and members named in `without` are
 * taken out.
 */
export function objectEdits(
  bytes: Buffer,
  start: number,
  {
    name,
    instead,
    values = {},
    without = [],
  }: { name: string; instead: string; values?: Record<string, string>; without?: readonly string[] },
): Edit[] {
  const object = bytes.subarray(start);
  const { all = [] } = objectSpansOf(object, [name, ...Object.keys(values), ...without]) ?? {};
  const edits: Edit[] = removalsOf(
    object,
    all.filter((member) => without.includes(member.name)),
  );
  for (const member of all) {
    const value = values[member.name];
    if (member.name === name) edits.push({ start: member.nameStart, end: member.end, by: Buffer.from(instead) });
    else if (value !== undefined) edits.push({ start: member.start, end: member.end, by: Buffer.from(value) });
  }
  return edits
    .sort((left, right) => left.start - right.start)
    .map((edit) => ({ ...edit, start: start + edit.start, end: start + edit.end }));
}
