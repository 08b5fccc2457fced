/** Measures JSON before it is parsed, and finds members that parsers read differently. */
import {
  closeBrace,
  closeBracket,
  colon,
  comma,
  endOfString,
  openBrace,
  openBracket,
  quote,
  skipSpace,
} from "./bytes.ts";
import { isObject, parseJson } from "./parse.ts";
import { readSpan } from "./spans.ts";

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

/**
 * Bounds on the recursion, the memory and the time that a request takes to read. The largest
 * requests of coding agents, of 2 MB, come to a tenth of them; lists of token ids for embeddings
 * are the reason for the many values.
 */
export const requestBounds: JsonBounds = {
  depthMax: 200,
  containersMax: 100_000,
  membersMax: 200_000,
  valuesMax: 1_000_000,
};

/**
 * The number of members of all objects, or the first bound that the bytes exceed. Requires valid
 * JSON; linear in the bytes.
 */
export function membersWithin(
  bytes: Buffer,
  { depthMax, containersMax, membersMax, valuesMax }: JsonBounds,
): number | keyof JsonBounds {
  let depth = 0;
  let containers = 0;
  let members = 0;
  /**
   * No comma precedes the first value of a container, so it is counted with its container, which
   * may be empty.
   */
  let commas = 0;
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case quote:
        at = endOfString(bytes, at) - 1;
        if (at < 0) return members;
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
  return members;
}

/** The text of a name in ASCII, without control characters. */
export const printable = (name: string) => name.slice(0, 200).replaceAll(/[^\x20-\x7e]/g, "?");

const boundMessages: Record<keyof JsonBounds, string> = {
  depthMax: `The body is nested more than ${requestBounds.depthMax} levels deep.`,
  containersMax: `The body holds more than ${requestBounds.containersMax} objects and arrays.`,
  membersMax: `The objects of the body hold more than ${requestBounds.membersMax} members together.`,
  valuesMax: `The body holds more than ${requestBounds.valuesMax} values.`,
};

export type JsonFault = { broken: keyof JsonBounds } | { repeated: string };

/** For the sender of a body with `requestBounds`, also of a form that has a field twice. */
export const faultMessageOf = (fault: JsonFault) =>
  "broken" in fault
    ? boundMessages[fault.broken]
    : `The body has '${printable(fault.repeated)}' twice in the same place. Send it once.`;

/**
 * Parses JSON that every parser reads alike. Otherwise: the first bound that the bytes exceed, or
 * the name of a member that one object has twice. Throws for bytes that are not JSON.
 */
export function parseWithin(bytes: Buffer, bounds: JsonBounds): { value: unknown } | JsonFault {
  const members = membersWithin(bytes, bounds);
  if (typeof members === "string") return { broken: members };
  const value = parseJson(bytes);
  const repeated = repeatedNameIn(bytes, value, members);
  return repeated === undefined ? { value } : { repeated };
}

/**
 * The name of a member that one object has twice: JSON.parse takes the last one, other parsers the
 * first or both. Undefined if there is none. `value` is the parsed JSON, and `members` the number
 * of members in its bytes, so that only JSON with such a name is scanned.
 */
function repeatedNameIn(bytes: Buffer, value: unknown, members: number): string | undefined {
  if (membersOf(value) === members) return undefined;
  /** The names in each open object; undefined for an array. */
  const open: (Set<unknown> | undefined)[] = [];
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case quote: {
        const end = endOfString(bytes, at);
        if (bytes[skipSpace(bytes, end)] === colon) {
          const name = readSpan(bytes, { start: at, end });
          if (open.at(-1)?.has(name)) return String(name);
          open.at(-1)?.add(name);
        }
        at = end - 1;
        break;
      }
      case openBrace:
        open.push(new Set());
        break;
      case openBracket:
        open.push(undefined);
        break;
      case closeBrace:
      case closeBracket:
        open.pop();
        break;
    }
  }
  return undefined;
}

/** The members of all objects in a value. */
function membersOf(value: unknown): number {
  let count = 0;
  if (Array.isArray(value)) {
    for (const element of value) if (isObject(element)) count += membersOf(element);
  } else if (isObject(value)) for (const name in value) count += 1 + membersOf(value[name]);
  return count;
}

/** Whether a text exceeds a bound. */
export const exceedsBounds = (text: string, bounds: JsonBounds) =>
  // Each level needs an opening and a closing bracket; each container and each member two
  // characters as well.
  text.length > 2 * Math.min(...Object.values(bounds)) && typeof membersWithin(Buffer.from(text), bounds) === "string";
