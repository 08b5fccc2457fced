/**
 * Finds the addresses of images and documents in a request's bytes, and replaces them with the
 * fetched data. Every other byte stays.
 */

import { jsonBytesOf } from "#wire/json/parse.ts";
import { type Edit, objectSpansOf, readSpan, removalsOf, replaceSpans, type Span } from "#wire/json/spans.ts";
import { type NamedString, namedStringsOf } from "#wire/json/strings.ts";
import { addressLengthMax } from "../bounds.ts";
import { type AttachmentAddress, type Data, dataUrlOf } from "../neutral/attachments.ts";
import { refuse } from "../neutral/field-support.ts";

/** The data that replaces an address; undefined to keep the address. */
export type ReplaceAddress = (address: AttachmentAddress) => Data | undefined;

/** An address in a request's bytes, and the edits that replace it with data, in order. */
interface Place {
  part: AttachmentAddress["part"];
  edits(data: Data): Edit[];
}

export interface AttachmentFinder {
  /**
   * Without one of these texts, the bytes contain no address, unless names are escaped. Short, with
   * a rare character first: those are found fastest.
   */
  marks: readonly string[];
  /** The names of members whose values may be addresses. */
  names: readonly string[];
  /** A name in the spelling of the format's documentation, in formats with several spellings. */
  spelled?(name: string): string;
  /**
   * `path` has the member names without indexes, such as `messages.content.image_url.url`.
   * Undefined for a string that is not an address.
   */
  placeOf(path: string, bytes: Buffer, string: NamedString): Place | undefined;
}

/** An escaped letter or underscore: a name that contains one may not match any mark. */
const escapedLetter = /\\u00[4-7]/i;
const searchedAtOnce = 1 << 20;
/** At least the characters of a mark, or of an escaped letter. */
const markLengthMax = 64;

/**
 * Whether the bytes have a mark, or a name with an escaped letter. V8 finds them in a text of
 * Latin-1 much faster than Node does in bytes, which may be full of backslashes.
 */
function mayHaveAddress(bytes: Buffer, marks: readonly string[]): boolean {
  for (let from = 0; from < bytes.length; from += searchedAtOnce) {
    const text = bytes.toString("latin1", from, from + searchedAtOnce + markLengthMax);
    if (marks.some((mark) => text.includes(mark)) || escapedLetter.test(text)) return true;
  }
  return false;
}

/**
 * The bytes with their addresses replaced. Throws Refusal, naming the field, if an attachment is
 * given twice. A request without attachments costs a few native searches.
 */
export function withAddresses(
  bytes: Buffer,
  { marks, names, spelled = (name) => name, placeOf }: AttachmentFinder,
  replace: ReplaceAddress,
): Buffer {
  if (!mayHaveAddress(bytes, marks)) return bytes;
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
      refuse(own, "is given beside another address: put each in a separate part");
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
const isDataUrl = (bytes: Buffer, { start }: Span) =>
  bytes.subarray(start + 1, start + 1 + dataUrlStart.length).equals(dataUrlStart);

/** True for an http(s) address in a field that may also have base64. */
export const isHttp = (bytes: Buffer, string: Span) =>
  string.end - string.start <= addressLengthMax && /^\s*https?:/i.test(String(readSpan(bytes, string)));

/** A place whose value a data URL replaces. */
export const dataUrlAt = ({ start, end }: Span, part: Place["part"]): Place => ({
  part,
  edits: (data) => [{ start, end, by: jsonBytesOf(dataUrlOf(data)) }],
});

/** Offset of an object around a string; level 0 is the innermost. */
export const enclosingObject = ({ objects }: NamedString, level: number) => objects[level]?.start ?? 0;

/** A place that cannot take data. */
export const fixed = (part: "media" | "server"): Place => ({ part, edits: () => [] });

/**
 * Edits the object with the address: `value` gives members new values, `instead` replaces the
 * member `name`, and members in `without` are removed.
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
