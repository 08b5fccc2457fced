/**
 * Schemas for Google's Gemini, in its fields `parametersJsonSchema` and `responseJsonSchema`, which
 * know a part of JSON Schema:
 * https://ai.google.dev/api/generate-content#FIELDS.response_json_schema
 */
import { defined, listOf, objectOf } from "#wire/json/parse.ts";
import { withNotes } from "./notes.ts";
import { type SchemaTarget, withItems } from "./read.ts";
import type { Schema } from "./references.ts";
import { mergedWith } from "./references.ts";

const keywords = new Set(
  "type title description enum items prefixItems minItems maxItems minimum maximum anyOf properties additionalProperties required".split(
    " ",
  ),
);
const formats = ["date-time", "date", "time"];

export const geminiTarget: SchemaTarget = { keepsReferences: false, rewrite };

/** https://ai.google.dev/gemini-api/docs/function-calling: letters, digits and underscores. */
export const geminiNames = { accepted: /^[A-Za-z_][A-Za-z0-9_]{0,63}$/, lengthMax: 64 };

function rewrite(written: Schema): Schema {
  const { allOf, ...own } = written;
  const whole = listOf(allOf).reduce<Schema>((merged, part) => mergedWith(objectOf(part), merged), own);
  const { oneOf, const: constant, format, exclusiveMinimum, exclusiveMaximum, ...schema } = whole;
  const { type } = schema;
  const notes: [string, unknown][] = Object.entries(schema).filter(([keyword]) => !keywords.has(keyword));
  const kept = Object.fromEntries(Object.entries(schema).filter(([keyword]) => keywords.has(keyword)));
  const isNumber = type === "integer" || type === "number";
  if (format !== undefined && type === "string" && formats.includes(String(format))) kept.format = format;
  else if (format !== undefined) notes.push(["format", format]);
  for (const [name, value, step] of [
    ["minimum", exclusiveMinimum, 1],
    ["maximum", exclusiveMaximum, -1],
  ] as const)
    if (typeof value === "number") {
      if (type === "integer" && kept[name] === undefined)
        kept[name] = (step === 1 ? Math.floor(value) : Math.ceil(value)) + step;
      else notes.push([name === "minimum" ? "exclusiveMinimum" : "exclusiveMaximum", value]);
    }
  if (constant !== undefined && kept.enum === undefined) kept.enum = [constant];
  const values = listOf(kept.enum);
  const accepted = values.filter((value) => typeof value === "number" || (typeof value === "string" && value !== ""));
  delete kept.enum;
  if (accepted.length > 0 && accepted.length + (values.includes(null) ? 1 : 0) === values.length) {
    kept.enum = accepted;
    kept.type = typeOf(type, values);
  } else if (values.length > 0) {
    notes.push(constant === undefined ? ["enum", values] : ["const", constant]);
    if (
      type === undefined &&
      values.every((value) => typeof value === typeof values[0]) &&
      typeof values[0] === "string"
    )
      kept.type = "string";
    if (type === undefined && values.every((value) => typeof value === "boolean")) kept.type = "boolean";
  }
  if (kept.type === undefined) delete kept.type;
  if (isNumber) for (const name of ["minItems", "maxItems"]) delete kept[name];
  const branches = [...listOf(kept.anyOf), ...listOf(oneOf)];
  if (branches.length > 0) kept.anyOf = branches;
  return withNotes(withOneType(withItems(kept)), notes);
}

function typeOf(type: unknown, values: readonly unknown[]): unknown {
  if (type !== undefined) return type;
  if (!values.every((value) => value === null || typeof value === typeof values[0])) return undefined;
  const plain = typeof values[0] === "number" ? "number" : "string";
  return values.includes(null) ? [plain, "null"] : plain;
}

const ofType: Record<string, readonly string[]> = {
  array: ["items", "prefixItems", "minItems", "maxItems"],
  object: ["properties", "required", "additionalProperties"],
  string: ["format", "enum"],
  number: ["minimum", "maximum", "enum"],
  integer: ["minimum", "maximum", "enum"],
};

/** A list of types is for a type that may be null; other lists become alternatives. */
function withOneType(schema: Schema): Schema {
  const { type, title, description, ...rest } = schema;
  if (!Array.isArray(type) || type.filter((one) => one !== "null").length < 2) return schema;
  const { anyOf, ...others } = rest;
  const branches = type.map((one: string) => {
    const names = ofType[one] ?? [];
    const { enum: values, ...typed } = Object.fromEntries(
      Object.entries(others).filter(([name]) => names.includes(name)),
    );
    const fitting = listOf(values).filter((value) => typeof value === (one === "string" ? "string" : "number"));
    return { type: one, ...typed, ...(fitting.length > 0 && { enum: fitting }) };
  });
  return {
    ...defined({ title, description }),
    anyOf: anyOf === undefined ? branches : listOf(anyOf),
  };
}
