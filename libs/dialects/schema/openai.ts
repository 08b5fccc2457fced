/**
 * Schemas for OpenAI: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */

import { isObject, listOf, objectOf } from "#wire/json/parse.ts";
import { formatInstructionOf } from "../neutral/format-instruction.ts";
import type { Message, NeutralRequest, Part, TextPart } from "../neutral/neutral.ts";
import { readSchema, type SchemaTarget, withItems } from "./read.ts";
import type { Schema } from "./references.ts";

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

/**
 * True if a schema may be marked strict: its root is an object, and every object lists all
 * properties as required and allows no others, within the vendor's bounds.
 */
export function fitsStrict(schema: unknown): boolean {
  const { type, anyOf } = objectOf(schema);
  const counts = { properties: 0, values: 0 };
  return (
    type === "object" &&
    anyOf === undefined &&
    fits(schema, 0, counts) &&
    counts.properties <= propertiesMax &&
    counts.values <= valuesMax
  );
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
  const schema = readSchema(format.schema, openaiTarget);
  if (schema.type !== "object")
    return { system: [...system, { kind: "text", text: formatInstructionOf(format.schema), path }] };
  return {
    system,
    schema: {
      name: name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, nameLengthMax),
      description,
      schema,
      strict: strict !== false && fitsStrict(schema),
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
