/**
 * Reads Google's schemas (https://ai.google.dev/api/caching#Schema) as JSON Schema. Callers mix
 * both kinds, so one reader serves both.
 */

import { isObject, type JsonObject, objectOf } from "#wire/json/parse.ts";
import { camelNameOf, valueNameOf } from "./names.ts";

type Schema = JsonObject;

/** Google's keywords of several words, which may also be written in snake case. */
const doubleKeywords = new Set([
  "minItems",
  "maxItems",
  "minLength",
  "maxLength",
  "minProperties",
  "maxProperties",
  "propertyOrdering",
  "anyOf",
]);
/** Bounds that Google's JSON writes as strings, because they are 64-bit integers. */
const bounds = new Set(["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]);
/** Formats that add nothing to the type. */
const typeFormats = new Set(["int32", "int64", "float", "double", "enum"]);

const schemaMembers = new Set([
  "items",
  "additionalProperties",
  "not",
  "if",
  "then",
  "else",
  "contains",
  "propertyNames",
]);
const schemaLists = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);
const schemaMaps = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);

/** Applies `change` to every nested schema; other values stay unchanged. */
function eachInner(name: string, value: unknown, change: (schema: unknown) => unknown): unknown {
  if (schemaMembers.has(name) || schemaLists.has(name)) return Array.isArray(value) ? value.map(change) : change(value);
  if (!schemaMaps.has(name) || !isObject(value) || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, schema]) => [key, change(schema)]));
}

export const jsonSchemaOf = (schema: unknown) => objectOf(standard(schema));

function standard(schema: unknown): unknown {
  if (!isObject(schema) || Array.isArray(schema)) return schema;
  const members = Object.entries(schema).flatMap(([written, value]): [string, unknown][] => {
    const camel = camelNameOf(written);
    const name = doubleKeywords.has(camel) ? camel : written;
    if (name === "type") return typeOf(value) === undefined ? [] : [[name, typeOf(value)]];
    if (name === "format" && typeFormats.has(String(value))) return [];
    if (name === "propertyOrdering" || name === "example" || (name === "nullable" && typeof value === "boolean"))
      return [];
    if (bounds.has(name) && typeof value === "string" && /^\d{1,15}$/.test(value)) return [[name, Number(value)]];
    return [[name, eachInner(name, value, standard)]];
  });
  const result = withNumbers(Object.fromEntries(members));
  return (schema as Schema).nullable === true ? orNull(result) : result;
}

/**
 * Google writes the allowed values of a number as strings, which no number matches in JSON Schema.
 */
function withNumbers(schema: Schema): Schema {
  const { type, enum: values } = schema;
  const types = [type].flat();
  if (!Array.isArray(values) || types.includes("string") || !types.some((one) => one === "integer" || one === "number"))
    return schema;
  const numberOf = (value: unknown) =>
    typeof value === "string" && /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value) ? Number(value) : value;
  return { ...schema, enum: values.map(numberOf) };
}

/** In lower case; undefined if there is none. */
function typeOf(written: unknown): unknown {
  const type = valueNameOf("type", written);
  if (Array.isArray(type)) return type.map((one) => (typeof one === "string" ? one.toLowerCase() : one));
  if (typeof type !== "string") return type;
  return type === "TYPE_UNSPECIFIED" ? undefined : type.toLowerCase();
}

function orNull(schema: Schema): Schema {
  const { type, anyOf, enum: values } = schema;
  const types = [type].flat();
  return {
    ...schema,
    ...(type !== undefined && !types.includes("null") && { type: [...types, "null"] }),
    ...(Array.isArray(values) && !values.includes(null) && { enum: [...values, null] }),
    ...(Array.isArray(anyOf) && { anyOf: [...anyOf, { type: "null" }] }),
  };
}
