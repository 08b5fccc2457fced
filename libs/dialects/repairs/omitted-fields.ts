/** Removes fields that an upstream refuses from the bytes of a request; every other byte stays. */
import { jsonBytesOf } from "#wire/json/parse.ts";
import { isEmptyObject, withElements, withMembers, withValues } from "#wire/json/spans.ts";

/** Where a request may have cache marks. */
const markedPlaces = [
  "",
  "system.",
  "tools.",
  "messages.content.",
  "messages.content.content.",
  "messages.",
  "tools.function.",
];

/**
 * The bytes without the fields at these paths: the names of members, separated by dots, through
 * lists; `tools.type=custom` is removed only with that value, and `reasoning_effort:="none"` sets a
 * member of the body to a JSON value. `cache_control.…` and `prompt_cache_breakpoint` mean every
 * place that has one. An object that becomes empty is removed too. Time is linear in the bytes, for
 * each path whose last name occurs in them. Bytes that are not a JSON object stay.
 */
export const withoutFields = (bytes: Buffer, paths: readonly string[]) =>
  paths.flatMap(placesOf).reduce((kept, path) => {
    const assigned = path.indexOf(":=");
    if (assigned > 0) return withValues(kept, { [path.slice(0, assigned)]: Buffer.from(path.slice(assigned + 2)) });
    const [names = "", value] = path.split("=");
    const steps = names.split(".");
    if (!kept.includes(`"${steps.at(-1)}"`)) return kept;
    return without(kept, steps, value === undefined ? undefined : jsonBytesOf(value));
  }, bytes);

const placesOf = (path: string) =>
  path.startsWith("cache_control.")
    ? markedPlaces.map((place) => `${place}${path}`)
    : path === "prompt_cache_breakpoint"
      ? ["messages.content", "input.content", "input.output"].map((place) => `${place}.${path}`)
      : [path];

const openBracket = 0x5b;

function without(bytes: Buffer, [name, ...others]: readonly string[], value: Buffer | undefined): Buffer {
  if (name === undefined) return bytes;
  if (bytes[0] === openBracket) return withElements(bytes, (element) => without(element, [name, ...others], value));
  return withMembers(bytes, name, (member) => {
    if (others.length === 0) return value === undefined || value.equals(member) ? undefined : member;
    const kept = without(member, others, value);
    return kept !== member && isEmptyObject(kept) ? undefined : kept;
  });
}

/** Begins the path of a beta in the `anthropic-beta` header. */
export const betaPath = "anthropic-beta:";
