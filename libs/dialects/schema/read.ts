/**
 * Reads a caller's JSON Schema (draft-04 to 2020-12, and OpenAPI's `nullable`) as a plain one of
 * 2020-12, whatever is wrong with it: members that are no schemas, types that do not exist,
 * references that lead nowhere or in circles. Time and size are bounded by the size of the caller's
 * schema. https://json-schema.org/draft/2020-12/json-schema-validation
 */

import { defined, isObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { schemaDepthMax, schemaNodesMax, schemaNodesMin } from "../bounds.ts";
import type { PropertyNames } from "./property-names.ts";
import {
  definitionIn,
  mergedWith,
  ReferenceLoops,
  referenced,
  referenceIn,
  type Schema,
  withoutReference,
} from "./references.ts";

/** The requirements of a target for schemas. */
export interface SchemaTarget {
  /**
   * References to definitions stay; otherwise what they name takes their place, and a circle ends
   * in a schema for any value of its type.
   */
  keepsReferences: boolean;
  /** Rewrites a schema whose inner schemas are rewritten already. */
  rewrite?(schema: Schema): Schema;
}

/**
 * A list with a schema of its items, without which OpenAI ("array schema missing items") and Google
 * ("items: missing field") refuse the request.
 */
export const withItems = (schema: Schema): Schema =>
  [schema.type].flat().includes("array") && schema.items === undefined && schema.prefixItems === undefined
    ? { ...schema, items: {} }
    : schema;

const jsonTypes = ["string", "number", "integer", "boolean", "array", "object", "null"];

/** How the value of a keyword is read. Other keywords are left out: no target knows them. */
export const keywords: Readonly<
  Record<string, "schema" | "list" | "map" | "number" | "count" | "text" | "flag" | "value">
> = {
  ...keys("schema", "items not if then else contains propertyNames unevaluatedItems unevaluatedProperties"),
  ...keys("list", "anyOf oneOf allOf prefixItems"),
  ...keys("map", "properties patternProperties dependentSchemas"),
  ...keys("number", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
  ...keys("count", "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains"),
  ...keys("text", "title description format pattern"),
  ...keys("flag", "uniqueItems"),
  ...keys("value", "const default examples dependentRequired"),
};

function keys<Kind extends string>(kind: Kind, names: string): Record<string, Kind> {
  return Object.fromEntries(names.split(" ").map((name) => [name, kind]));
}

class TooLarge extends Error {}

/**
 * `names` maps the names of properties that the target does not accept; undefined for a target that
 * accepts all. A schema that is too large becomes a sketch of its first level.
 */
export function readSchema(root: Schema, target: SchemaTarget, names?: PropertyNames): Schema {
  try {
    return new SchemaReader(root, target, names).read();
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return sketchOf(root, names);
  }
}

class SchemaReader {
  readonly #root: Schema;
  readonly #target: SchemaTarget;
  readonly #names: PropertyNames | undefined;
  readonly #loops: ReferenceLoops;
  #left: number;
  /**
   * Definitions that a kept reference names, in the order of their first mention: `$defs` or
   * `definitions`, and the name.
   */
  readonly #definitions = new Map<string, [string, string]>();

  constructor(root: Schema, target: SchemaTarget, names: PropertyNames | undefined) {
    this.#root = root;
    this.#target = target;
    this.#names = names;
    this.#loops = new ReferenceLoops(root);
    this.#left = Math.min(schemaNodesMax, Math.max(schemaNodesMin, 4 * sizeOf(root)));
  }

  read(): Schema {
    const schema = this.#schema(this.#root, 0, []);
    const definitions = new Map<string, [string, unknown][]>();
    for (const [keyword, name] of this.#definitions.values()) {
      const list = definitions.get(keyword) ?? [];
      list.push([name, this.#schema(objectOf(this.#root[keyword])[name], 1, [])]);
      definitions.set(keyword, list);
    }
    return definitions.size === 0
      ? schema
      : {
          ...schema,
          ...Object.fromEntries([...definitions].map(([keyword, list]) => [keyword, Object.fromEntries(list)])),
        };
  }

  #schema(value: unknown, depth: number, within: readonly string[]): Schema {
    if (--this.#left < 0) throw new TooLarge();
    if (!isPlainObject(value) || depth > schemaDepthMax) return {};
    const reference = referenceIn(value);
    if (reference !== undefined) return this.#reference(value, reference, depth, within);
    const members = Object.entries(value).flatMap(([keyword, member]) => this.#member(keyword, member, depth, within));
    const plain = plainOf(Object.fromEntries(members), value);
    const required = this.#required(value.required, plain.properties);
    const whole = inOrderOf(value, required === undefined ? plain : { ...plain, required });
    return this.#target.rewrite?.(whole) ?? whole;
  }

  #reference(value: Schema, reference: string, depth: number, within: readonly string[]): Schema {
    const rest = withoutReference(value);
    const isKept = this.#target.keepsReferences && !this.#loops.has(reference);
    const definition = isKept ? definitionIn(this.#root, reference) : undefined;
    if (definition !== undefined) {
      const pointer = `#/${definition.join("/")}`;
      this.#definitions.set(pointer, definition);
      const { $defs: _defs, definitions: _definitions, ...others } = rest;
      const beside = Object.keys(others).length === 0 ? {} : this.#schema(others, depth, within);
      return { $ref: pointer, ...beside };
    }
    const target = referenced(this.#root, reference);
    if (!isPlainObject(target)) return this.#schema(rest, depth, within);
    if (within.includes(reference) || within.length > schemaDepthMax)
      return this.#schema(endOf(target, rest), depth, within);
    return this.#schema(mergedWith(target, rest), depth, [...within, reference]);
  }

  #member(keyword: string, value: unknown, depth: number, within: readonly string[]): [string, unknown][] {
    const inner = (schema: unknown) => this.#schema(schema, depth + 1, within);
    if (keyword === "additionalProperties" || keyword === "items") {
      if (typeof value === "boolean") return keyword === "items" ? [] : [[keyword, value]];
      if (keyword === "additionalProperties") return isPlainObject(value) ? [[keyword, inner(value)]] : [];
    }
    if (keyword === "items" && Array.isArray(value))
      return value.length === 0 ? [] : [["prefixItems", value.map(inner)]];
    switch (Object.hasOwn(keywords, keyword) ? keywords[keyword] : undefined) {
      case "schema":
        return isPlainObject(value) ? [[keyword, inner(value)]] : [];
      case "list":
        return Array.isArray(value) && value.length > 0 ? [[keyword, value.map(inner)]] : [];
      case "map":
        return isPlainObject(value)
          ? [
              [
                keyword,
                Object.fromEntries(
                  Object.entries(value).map(([name, schema]) => [this.#nameIn(keyword, name), inner(schema)]),
                ),
              ],
            ]
          : [];
      case "number":
        return numberOf(value) === undefined ? [] : [[keyword, numberOf(value)]];
      case "count": {
        const count = numberOf(value);
        return count !== undefined && Number.isInteger(count) && count >= 0 ? [[keyword, count]] : [];
      }
      case "text":
        return typeof value === "string" && !(keyword === "pattern" && !isPattern(value)) ? [[keyword, value]] : [];
      case "flag":
        return typeof value === "boolean" ? [[keyword, value]] : [];
      case "value":
        return [[keyword, value]];
      default:
        return [];
    }
  }

  #nameIn(keyword: string, name: string): string {
    return keyword === "properties" ? (this.#names?.wireNameOf(name) ?? name) : name;
  }

  #required(value: unknown, properties: unknown): string[] | undefined {
    const members = objectOf(properties);
    const names = listOf(value).flatMap((name) =>
      typeof name === "string" ? [this.#names?.wireNameOf(name) ?? name] : [],
    );
    const kept = [...new Set(names)].filter((name) => Object.hasOwn(members, name));
    return kept.length > 0 || (Array.isArray(value) && value.length === 0) ? kept : undefined;
  }
}

/** The members in the caller's order, so that a prompt stays the same text. */
const inOrderOf = (written: Schema, schema: Schema): Schema =>
  Object.fromEntries(
    [...new Set([...Object.keys(written), ...Object.keys(schema)])].flatMap((keyword) =>
      Object.hasOwn(schema, keyword) ? [[keyword, schema[keyword]]] : [],
    ),
  );

const isPlainObject = (value: unknown): value is Schema => isObject(value) && !Array.isArray(value);

/** The end of a circle: any value of the type that the reference names. */
const endOf = ({ type }: Schema, { description }: Schema): Schema => ({
  type: type ?? "object",
  ...(typeof description === "string" && { description }),
});

/** Numbers may be written as text, as some of Google's clients do. */
function numberOf(value: unknown): number | undefined {
  const number = typeof value === "string" && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

function isPattern(pattern: string): boolean {
  try {
    new RegExp(pattern, "u");
    return true;
  } catch {
    return false;
  }
}

/** `written` is the caller's schema, with the keywords of earlier drafts. */
function plainOf(schema: Schema, written: Schema): Schema {
  const types = typesOf(written, schema);
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, ...others } = schema;
  const values = listOf(written.enum);
  return {
    ...defined({ type: types }),
    ...others,
    ...(values.length > 0 && {
      enum: written.nullable === true && !values.includes(null) ? [...values, null] : values,
    }),
    ...bound("minimum", minimum, exclusiveMinimum, written.exclusiveMinimum),
    ...bound("maximum", maximum, exclusiveMaximum, written.exclusiveMaximum),
  };
}

/** In draft-04, `exclusiveMinimum: true` makes the minimum exclusive. */
function bound(name: "minimum" | "maximum", value: unknown, exclusive: unknown, written: unknown): Schema {
  const exclusiveName = name === "minimum" ? "exclusiveMinimum" : "exclusiveMaximum";
  if (written === true) return value === undefined ? {} : { [exclusiveName]: value };
  return defined({ [name]: value, [exclusiveName]: exclusive });
}

function typesOf(
  { type, nullable }: Schema,
  { properties, items, prefixItems }: Schema,
): string | string[] | undefined {
  const names = [type]
    .flat()
    .flatMap((one) => (typeof one === "string" && jsonTypes.includes(one.toLowerCase()) ? [one.toLowerCase()] : []));
  if (names.length === 0 && properties !== undefined) names.push("object");
  if (names.length === 0 && (items ?? prefixItems) !== undefined) names.push("array");
  if (names.length > 0 && nullable === true) names.push("null");
  const types = [...new Set(names)];
  return types.length <= 1 ? types[0] : types;
}

/** The number of objects and lists in a value, as far as it matters. */
function sizeOf(value: unknown, depth = 0): number {
  if (!isObject(value) || depth > 4 * schemaDepthMax) return 1;
  let size = 1;
  for (const member of Object.values(value)) {
    if (isObject(member)) size += sizeOf(member, depth + 1);
    if (size > schemaNodesMax) break;
  }
  return size;
}

const sketchedMax = 100;

/** The names and plain types of the first properties. */
function sketchOf({ properties, description }: Schema, names: PropertyNames | undefined): Schema {
  const sketched = Object.entries(objectOf(properties))
    .slice(0, sketchedMax)
    .map(([name, value]): [string, Schema] => {
      const { type, description: note } = objectOf(value);
      const isPlain = typeof type === "string" && ["string", "number", "integer", "boolean"].includes(type);
      return [
        names?.wireNameOf(name) ?? name,
        { ...(isPlain && { type }), ...(textOf(note) !== undefined && { description: note }) },
      ];
    });
  return {
    type: "object",
    ...(textOf(description) !== undefined && { description }),
    properties: Object.fromEntries(sketched),
  };
}
