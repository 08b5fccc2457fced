/**
 * Schemas for OpenAI: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */

import { isObject, listOf, objectOf } from "#wire/json/parse.ts";
import { schemaNodesMax } from "../bounds.ts";
import { formatInstructionOf } from "../neutral/format-instruction.ts";
import type { Message, NeutralRequest, Part, TextPart } from "../neutral/neutral.ts";
import { withNotes } from "./notes.ts";
import { readSchema, type SchemaTarget, withItems } from "./read.ts";
import { mergedWith, referenced, type Schema } from "./references.ts";
import { resolvedRoot } from "./root.ts";

export const openaiTarget: SchemaTarget = { keepsReferences: true, rewrite: withItems };

const depthMax = 10;
const propertiesMax = 5_000;
const valuesMax = 1_000;
const refused = [
  "allOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "dependentRequired",
  "dependentSchemas",
  "patternProperties",
  "propertyNames",
  "prefixItems",
  "contains",
  "unevaluatedItems",
  "unevaluatedProperties",
];

const stringFormats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/**
 * A schema as it may be marked strict; undefined if it does not fit. Its root is an object, and
 * every object lists all properties as required and allows no others, within the vendor's bounds.
 */
export function strictSchemaOf(schema: Schema): Schema | undefined {
  const strict = new StrictSchema(schema).read();
  const { type, anyOf } = strict;
  const counts = { properties: 0, values: 0 };
  const isFit =
    type === "object" &&
    anyOf === undefined &&
    fits(strict, 0, counts) &&
    counts.properties <= propertiesMax &&
    counts.values <= valuesMax;
  return isFit ? strict : undefined;
}

/**
 * A strict schema has neither other formats (https://github.com/cyanheads/git-mcp-server/issues/47)
 * nor `uniqueItems` (https://github.com/1jehuang/jcode/issues/687), no `allOf`, and a reference has no
 * keywords beside it. As in the vendor's own library, what such a reference names takes its place,
 * and so does the only schema of `allOf`:
 * https://github.com/openai/openai-python/blob/main/src/openai/lib/_pydantic.py
 */
class StrictSchema {
  readonly #root: Schema;
  /** The schemas that may still be copied. */
  #left = schemaNodesMax;

  constructor(root: Schema) {
    this.#root = root;
  }

  read(): Schema {
    return this.#schema(this.#root, []);
  }

  #schema(value: unknown, within: readonly string[]): Schema {
    this.#left--;
    const { $ref: reference, ...beside } = objectOf(value);
    if (typeof reference === "string") {
      const isCopied = Object.keys(beside).length > 0 && this.#left > 0 && !within.includes(reference);
      if (!isCopied) return { $ref: reference };
      return this.#schema(mergedWith(objectOf(referenced(this.#root, reference)), beside), [...within, reference]);
    }
    const { allOf, ...others } = beside;
    const [only, ...more] = listOf(allOf);
    if (only !== undefined && more.length === 0) return this.#schema(mergedWith(objectOf(only), others), within);
    const isUnknown = ([keyword, member]: [string, unknown]) =>
      keyword === "uniqueItems" || (keyword === "format" && !stringFormats.includes(String(member)));
    const inner = (schema: unknown) => this.#schema(schema, within);
    const members = Object.entries(beside);
    const kept = members
      .filter((member) => !isUnknown(member))
      .map(([keyword, member]) => {
        if (keyword === "items" && isObject(member)) return [keyword, inner(member)];
        if (keyword === "anyOf") return [keyword, listOf(member).map(inner)];
        if (!["properties", "$defs", "definitions"].includes(keyword)) return [keyword, member];
        const schemas = Object.entries(objectOf(member));
        return [keyword, Object.fromEntries(schemas.map(([name, schema]) => [name, inner(schema)]))];
      });
    return withNotes(Object.fromEntries(kept), members.filter(isUnknown));
  }
}

function fits(schema: unknown, depth: number, counts: { properties: number; values: number }): boolean {
  if (Array.isArray(schema)) return schema.every((one) => fits(one, depth, counts));
  if (!isObject(schema)) return true;
  if (depth > depthMax) return false;
  const { type, properties, required, additionalProperties, items, anyOf, $defs, definitions, ...others } =
    schema as Schema;
  const names = Object.keys(objectOf(properties));
  const demanded = new Set(listOf(required));
  counts.properties += names.length;
  counts.values += listOf(others.enum).length;
  const isOfObjects = type === "object" || properties !== undefined || (Array.isArray(type) && type.includes("object"));
  if (isOfObjects && (additionalProperties !== false || names.some((name) => !demanded.has(name)))) return false;
  if (refused.some((keyword) => keyword in others)) return false;
  if (!["type", "$ref", "enum", "const", "anyOf"].some((keyword) => keyword in (schema as Schema))) return false;
  return (
    [items, anyOf].every((inner) => fits(inner, depth + 1, counts)) &&
    [properties, $defs, definitions].every((map) =>
      Object.values(objectOf(map)).every((inner) => fits(inner, depth + 1, counts)),
    )
  );
}

/**
 * The format of a request as OpenAI's two dialects state it, and the instructions. The root of a
 * schema must be an object; the model is told any other, because it can't be enforced. `path` is
 * the field of the format.
 */
export function openaiFormatOf(
  { system, messages, settings }: Pick<NeutralRequest, "system" | "messages" | "settings">,
  path: string,
): { system: TextPart[]; isJson?: boolean; schema?: object } {
  const format = settings.format?.value;
  if (format === undefined) return { system };
  if (format.kind === "json")
    return {
      system:
        system.some(saysJson) || haveJson(messages)
          ? system
          : [...system, { kind: "text", text: formatInstructionOf(undefined), path }],
      isJson: true,
    };
  const { name = "answer", description, strict } = format;
  const schema = readSchema(resolvedRoot(format.schema), openaiTarget);
  if (schema.type !== "object")
    return { system: [...system, { kind: "text", text: formatInstructionOf(format.schema), path }] };
  const strictSchema = strict === false ? undefined : strictSchemaOf(schema);
  return {
    system,
    schema: {
      name: name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, nameLengthMax),
      description,
      schema: strictSchema ?? schema,
      strict: strictSchema !== undefined,
    },
  };
}

const saysJson = (part: Part) => part.kind === "text" && /json/i.test(part.text);

/**
 * Whether the turns have the word without which OpenAI refuses JSON without a schema:
 * https://platform.openai.com/docs/guides/structured-outputs#json-mode
 */
export const haveJson = (messages: readonly Message[]) => messages.some(({ parts }) => parts.some(saysJson));

const nameLengthMax = 64;
