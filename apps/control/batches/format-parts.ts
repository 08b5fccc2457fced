/** Steps that the formats of batches share. */
import { objectSpansOf } from "#wire/json/spans.ts";

/** The bytes of a member's value on one line. Requires valid JSON that has it. */
export function memberBytes<Name extends string>(bytes: Buffer, name: Name): Buffer {
  const { start = 0, end = 0 } = objectSpansOf(bytes, [name])?.members[name] ?? {};
  return onOneLine(bytes.subarray(start, end));
}

/**
 * JSON without line ends, which may be only between its tokens. Returns the same bytes if there are
 * none.
 */
function onOneLine(json: Buffer): Buffer {
  if (!json.includes(0x0a) && !json.includes(0x0d)) return json;
  return Buffer.from(json.map((byte) => (byte === 0x0a || byte === 0x0d ? 0x20 : byte)));
}

/** JSON with bytes of JSON inside. */
export const joined = (before: string, inside: Buffer, after: string): Buffer =>
  Buffer.concat([Buffer.from(before), onOneLine(inside), Buffer.from(after)]);

/** Inside an object that goes on: the members without their braces, and a comma. */
export function membersOf(value: Record<string, unknown>): string {
  const text = JSON.stringify(value);
  return text === "{}" ? "" : `${text.slice(1, -1)},`;
}
