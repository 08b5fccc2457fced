/** Parses and writes JSON, and reads parsed values of unknown shape. */
import { isAscii } from "node:buffer";

/**
 * Parses JSON in UTF-8; throws SyntaxError. ASCII is decoded as Latin-1, which V8 does nine times
 * faster for megabytes.
 */
export const parseJson = (bytes: Buffer): unknown => JSON.parse(textOfJson(bytes));

const textOfJson = (bytes: Buffer) => bytes.toString(isAscii(bytes) ? "latin1" : "utf8");

/**
 * Matches numbers that a double may not hold: integers of many digits, and large powers. Losing a
 * fraction's digits beyond the 16th does not matter.
 */
const longNumber = /(?:^|[^\d.])\d{16}|\d[eE]\+?\d{3}/;

/** https://github.com/tc39/proposal-json-parse-with-source */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
};

/**
 * Parses JSON so that numbers are written again exactly as they were. A number that a double cannot
 * hold, such as an id of 19 digits, becomes an object with its digits (JSON.rawJSON). Throws
 * SyntaxError.
 */
export function parseExact(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text);
  return parse(text, (_key, value, { source = "" }) => {
    if (typeof value !== "number" || !longNumber.test(source)) return value;
    return Number.isSafeInteger(value) || String(value) === source ? value : rawJSON(source);
  });
}

/** The bytes as a JSON object with exact numbers; undefined if they are not one. */
export function parsedObject(bytes: Buffer): JsonObject | undefined {
  try {
    const value = parseExact(textOfJson(bytes));
    return plainObjectOf(value);
  } catch {
    return undefined;
  }
}

/**
 * JSON text on one line. Escapes the two line separators (U+2028 and U+2029) that JSON allows
 * unescaped and that some readers treat as line breaks.
 */
export function jsonOf(value: unknown): string {
  const text = JSON.stringify(value);
  if (!separators.test(text)) return text;
  // Ten times faster than a replacement if there are millions of them.
  return text.split("\u2028").join("\\u2028").split("\u2029").join("\\u2029");
}

const separators = /[\u2028\u2029]/;

/** The same text in UTF-8. */
export const jsonBytesOf = (value: unknown): Buffer => Buffer.from(jsonOf(value));

/** A parsed object of unknown shape. */
export type JsonObject = Record<string, unknown>;

/** An object or an array. */
export const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null;

/** False for undefined and null. */
export const isPresent = (value: unknown) => value !== undefined && value !== null;

/** The value if it is an object, otherwise {}. For reading untrusted values. */
export const objectOf = (value: unknown): JsonObject => plainObjectOf(value) ?? {};

/** The value if it is an object and no list, otherwise undefined. */
export const plainObjectOf = (value: unknown): JsonObject | undefined =>
  isObject(value) && !Array.isArray(value) ? value : undefined;

/** The value if it is a list, otherwise []. */
export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** The list unless it is empty, for a member that is absent instead. */
export const someOf = <List extends readonly unknown[]>(list: List) => (list.length > 0 ? list : undefined);

type Defined<Members> = { [Name in keyof Members as undefined extends Members[Name] ? never : Name]: Members[Name] } & {
  [Name in keyof Members as undefined extends Members[Name] ? Name : never]?: Exclude<Members[Name], undefined>;
};

/** The members that are defined. JSON leaves out the others by itself. */
export const defined = <Members extends object>(members: Members) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Defined<Members>;

/** The value if it is a string, also an empty one. */
export const stringOf = (value: unknown) => (typeof value === "string" ? value : undefined);

/** The value if it is a boolean. */
export const flagOf = (value: unknown) => (typeof value === "boolean" ? value : undefined);

/** The value if it is a non-empty string. */
export const textOf = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);
