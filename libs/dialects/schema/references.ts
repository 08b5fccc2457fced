/** References within a schema: https://json-schema.org/draft/2020-12/json-schema-core#name-direct-references-with-ref */
import { isObject, objectOf } from "../json.ts";
import type { Schema } from "./read.ts";

const pointerLengthMax = 1_000;

/** The value at a JSON pointer such as `#/$defs/a` or `#/properties/b`; undefined for a reference out of the schema and for one that leads nowhere. */
export function referenced(root: Schema, reference: string): unknown {
  if (reference === "#") return root;
  if (!reference.startsWith("#/") || reference.length > pointerLengthMax) return undefined;
  let found: unknown = root;
  for (const step of decoded(reference.slice(2)).split("/")) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

function decoded(pointer: string): string {
  try {
    return decodeURIComponent(pointer);
  } catch {
    return pointer;
  }
}

/** The keyword and the name of a definition at the root; undefined for other references, and for a definition that is missing. */
export function definitionIn(root: Schema, reference: string): [string, string] | undefined {
  const [, keyword = "", name = ""] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(reference) ?? [];
  const definitions = objectOf(root[keyword]);
  return Object.hasOwn(definitions, name) && isObject(definitions[name]) ? [keyword, name] : undefined;
}

/** A schema for what both allow, as far as common keywords go; `more` wins. */
export function mergedWith(schema: Schema, more: Schema): Schema {
  if (Object.keys(more).length === 0) return schema;
  const merged: Schema = { ...schema, ...more };
  if (isObject(schema.properties) && isObject(more.properties))
    merged.properties = { ...objectOf(schema.properties), ...objectOf(more.properties) };
  if (Array.isArray(schema.required) && Array.isArray(more.required))
    merged.required = [...new Set([...schema.required, ...more.required])];
  if (Array.isArray(schema.allOf) && Array.isArray(more.allOf)) merged.allOf = [...schema.allOf, ...more.allOf];
  return merged;
}
