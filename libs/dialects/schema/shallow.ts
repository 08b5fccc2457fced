/**
 * Schemas for upstreams that bound how deep a schema goes, or how many states its grammar has. What
 * these refuse stands in the descriptions.
 */
import { isObject, listOf, objectOf } from "#wire/json/parse.ts";
import { withNotes } from "./notes.ts";
import { keywords, withItems } from "./read.ts";
import type { Schema } from "./references.ts";

/** Google's bound on objects and lists: https://github.com/Portkey-AI/gateway/pull/1616 */
const depthMax = 4;

const kindOf = (keyword: string) =>
  keyword === "additionalProperties" ? "schema" : /^(?:\$defs|definitions)$/.test(keyword) ? "map" : keywords[keyword];

/** The schema without bounds of values, and without schemas within those of the deepest level. */
export function shallowSchema(schema: Schema, depth = 1): Schema {
  const inner = (value: unknown) => (isObject(value) ? shallowSchema(objectOf(value), depth + 1) : value);
  const notes: [string, unknown][] = [];
  const kept = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    const kind = kindOf(keyword);
    const isInner = kind === "schema" || kind === "list" || kind === "map";
    const isBound = kind === "number" || kind === "count" || keyword === "format" || keyword === "pattern";
    if (isBound || (depth >= depthMax && (isInner || keyword === "required"))) {
      notes.push([keyword, value]);
      return [];
    }
    if (!isInner) return [[keyword, value]];
    if (Array.isArray(value)) return [[keyword, listOf(value).map(inner)]];
    if (kind !== "map") return [[keyword, inner(value)]];
    return [[keyword, Object.fromEntries(Object.entries(objectOf(value)).map(([name, one]) => [name, inner(one)]))]];
  });
  return withNotes(withItems(Object.fromEntries(kept)), notes);
}
