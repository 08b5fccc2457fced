/**
 * Schemas for Anthropic's tools and structured outputs:
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs
 */

import { isObject, listOf, objectOf } from "#wire/json/parse.ts";
import { definitionChainMax } from "../bounds.ts";
import { withNotes } from "./notes.ts";
import { readSchema, type SchemaTarget } from "./read.ts";
import type { Schema } from "./references.ts";

export const anthropicTarget: SchemaTarget = { keepsReferences: true };

/** The vendor's words: "Property keys should match pattern". */
export const anthropicNames = { accepted: /^[a-zA-Z0-9_.-]{1,64}$/, lengthMax: 64 };

const stringFormats = ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/** Keywords that are sent unchanged. */
const plain = ["$ref", "type", "enum", "const", "required", "description", "title", "default"];
/** A schema without any of these allows everything. */
const saying = ["$ref", "type", "enum", "const", "anyOf", "allOf", "properties"];
/** Keywords without any effect on validation. */
const idle = ["examples"];

/**
 * What the strict schemas of a request may have together: tools, properties that may be left out,
 * and values of several types. https://github.com/camel-ai/camel/pull/4171
 */
export interface StrictBounds {
  tools: number;
  optional: number;
  unions: number;
}
export const strictBounds = (): StrictBounds => ({ tools: 20, optional: 24, unions: 16 });

/**
 * The schema within the vendor's subset: objects are closed, and bounds and patterns move into
 * descriptions, as in its client libraries. Undefined for a schema that cannot be expressed (a
 * recursive one, or one with objects whose members are not named) and for one that exceeds the rest
 * of the request's bounds, which it takes its part of otherwise.
 */
export function structuredSchemaOf(written: Schema, rest: StrictBounds): Schema | undefined {
  const root = readSchema(written, anthropicTarget);
  if (isRecursive(root)) return undefined;
  let isOpen = false;
  let optional = 0;
  let unions = 0;
  const closed = (value: unknown): Schema => {
    const schema = objectOf(value);
    const kept: Schema = {};
    const untold: [string, unknown][] = [];
    for (const [keyword, member] of Object.entries(schema)) {
      if (plain.includes(keyword)) kept[keyword] = member;
      else if (keyword === "$defs" || keyword === "definitions" || keyword === "properties")
        kept[keyword] = Object.fromEntries(
          Object.entries(objectOf(member)).map(([name, inner]) => [name, closed(inner)]),
        );
      else if (keyword === "anyOf" || keyword === "oneOf")
        kept.anyOf = [...listOf(kept.anyOf), ...listOf(member).map(closed)];
      else if (keyword === "allOf") kept.allOf = listOf(member).map(closed);
      else if (keyword === "items" && !Array.isArray(member)) kept.items = closed(member);
      else if (keyword === "format" && stringFormats.includes(String(member))) kept.format = member;
      else if (keyword === "minItems" && (member === 0 || member === 1)) kept.minItems = member;
      else if (keyword !== "additionalProperties" && !idle.includes(keyword)) untold.push([keyword, member]);
    }
    isOpen ||= !saying.some((keyword) => kept[keyword] !== undefined);
    if ([schema.type].flat().includes("object") || kept.properties !== undefined) {
      const { additionalProperties: others = kept.properties === undefined } = schema;
      isOpen ||= others !== false;
      kept.additionalProperties = false;
    }
    const names = Object.keys(objectOf(kept.properties));
    isOpen ||= names.some((name) => !anthropicNames.accepted.test(name));
    optional += names.length - listOf(kept.required).length;
    if (Array.isArray(kept.type) || kept.anyOf !== undefined) unions++;
    return withNotes(kept, untold);
  };
  const schema = closed(root);
  if (isOpen || optional > rest.optional || unions > rest.unions) return undefined;
  rest.optional -= optional;
  rest.unions -= unions;
  return schema;
}

/** True if a definition refers to itself, or a reference leaves the schema. */
function isRecursive({ $defs, definitions, ...root }: Schema): boolean {
  const definitionLists: Record<string, Schema> = { $defs: objectOf($defs), definitions: objectOf(definitions) };
  const finished = new Set<string>();
  const under = new Set<string>();
  const leadsBack = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.some(leadsBack);
    if (!isObject(value)) return false;
    return Object.entries(value).some(([keyword, inner]) =>
      keyword === "$ref" && typeof inner === "string" ? refers(inner) : leadsBack(inner),
    );
  };
  const refers = (reference: string): boolean => {
    const [, keyword = "", name = ""] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
    const definitions = definitionLists[keyword] ?? {};
    if (!Object.hasOwn(definitions, name) || under.has(reference) || under.size >= definitionChainMax) return true;
    if (finished.has(reference)) return false;
    under.add(reference);
    const back = leadsBack(definitions[name]);
    under.delete(reference);
    finished.add(reference);
    return back;
  };
  return leadsBack(root);
}
