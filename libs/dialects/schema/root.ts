/**
 * The root of a tool's schema. OpenAI and Anthropic accept only an object there, without `anyOf`,
 * `oneOf`, `allOf`, `not` and `enum`: the branches are merged, and the rule that they state goes
 * into the description.
 */

import { isObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { schemaAlternativesMax, schemaDepthMax } from "../bounds.ts";
import { withNotes } from "./notes.ts";
import type { Schema } from "./references.ts";
import { mergedWith, referenced, referenceIn, withoutReference } from "./references.ts";

/** The schema with an object at its root; the same one if it has that already. */
export function withObjectRoot(schema: Schema): Schema {
  const {
    anyOf,
    oneOf,
    allOf,
    not,
    enum: values,
    const: constant,
    if: condition,
    then,
    else: elseSchema,
    ...root
  } = resolvedRoot(schema);
  const rules = { not, enum: values, const: constant, if: condition, then, else: elseSchema };
  const isPlain =
    schema.type === "object" &&
    referenceIn(schema) === undefined &&
    [anyOf, oneOf, allOf, ...Object.values(rules)].every((keyword) => keyword === undefined);
  if (isPlain) return schema;
  const parts = listOf(allOf)
    .slice(0, schemaAlternativesMax)
    .map((part) => resolved(part, schema));
  const options = [...listOf(anyOf), ...listOf(oneOf)]
    .slice(0, schemaAlternativesMax)
    .map((part) => resolved(part, schema))
    .filter(({ type }) => type === undefined || [type].flat().includes("object"));
  const alternatives = options.some((part) => isObject(part.properties) || Array.isArray(part.required)) ? options : [];
  const required = [root, ...parts].flatMap(requiredIn);
  const common =
    alternatives.length === 0
      ? []
      : requiredIn(alternatives[0] as Schema).filter((name) =>
          alternatives.every((one) => requiredIn(one).includes(name)),
        );
  const rule = alternatives.length < 2 ? undefined : ruleOf(alternatives);
  const description = [textOf(root.description), rule].filter((text) => text !== undefined).join("\n\n");
  const { additionalProperties } = root;
  const united = {
    ...root,
    type: "object",
    ...(description !== "" && { description }),
    properties: unitedProperties([root, ...parts], alternatives),
    required: [...new Set([...required, ...common])],
    ...(alternatives.length > 0 || parts.length > 0
      ? { additionalProperties: isObject(additionalProperties) ? additionalProperties : undefined }
      : {}),
  };
  const conditions = Object.entries({ ...rules, allOf: conditionsIn(parts), anyOf: conditionsIn(options) });
  return withNotes(
    united,
    conditions.filter(([, rule]) => rule !== undefined),
  );
}

/** The schema with what its root refers to in place of the reference. */
export const resolvedRoot = (schema: Schema) => resolved(schema, schema);

/** Keywords of a branch that the union of its properties contains. */
const unitedKeywords = ["properties", "required", "type", "title", "description", "additionalProperties"];
const annotations = [
  "$id",
  "id",
  "$schema",
  "$comment",
  "$anchor",
  "$dynamicAnchor",
  "$defs",
  "definitions",
  "examples",
  "default",
];

/**
 * The conditions of branches beyond their properties, for the model to read; undefined if there are
 * none.
 */
function conditionsIn(branches: readonly Schema[]): Schema[] | undefined {
  const conditions = branches.map((branch) =>
    Object.fromEntries(
      Object.entries(branch).filter(([keyword]) => !unitedKeywords.includes(keyword) && !annotations.includes(keyword)),
    ),
  );
  const demanding = conditions.filter((condition) => Object.keys(condition).length > 0);
  return demanding.length === 0 ? undefined : demanding;
}

/**
 * A schema at the root, with its references followed and parts that only wrap another one opened.
 */
function resolved(value: unknown, root: Schema): Schema {
  let schema = objectOf(value);
  for (let hops = 0; hops < schemaDepthMax; hops++) {
    const reference = referenceIn(schema);
    if (reference === undefined) break;
    schema = mergedWith(objectOf(referenced(root, reference)), withoutReference(schema));
  }
  return withoutReference(schema);
}

const requiredIn = ({ required }: Schema) => listOf(required);

/** Properties that alternatives describe differently may have any of their schemas. */
function unitedProperties(parts: readonly Schema[], alternatives: readonly Schema[]): Schema {
  const united = new Map<string, unknown>();
  for (const { properties } of parts)
    for (const [name, schema] of Object.entries(objectOf(properties))) united.set(name, schema);
  const fixed = new Set(united.keys());
  const options = new Map<string, Map<string, unknown>>();
  for (const { properties } of alternatives)
    for (const [name, schema] of Object.entries(objectOf(properties))) {
      if (fixed.has(name)) continue;
      const schemas = options.get(name) ?? new Map<string, unknown>();
      schemas.set(JSON.stringify(schema) ?? "", schema);
      options.set(name, schemas);
    }
  for (const [name, schemas] of options) {
    const list = [...schemas.values()];
    united.set(name, list.length === 1 ? list[0] : (unitedValues(list) ?? { anyOf: list }));
  }
  return Object.fromEntries(united);
}

/** One list of values in place of several constants, which is how a discriminator is written. */
function unitedValues(schemas: readonly unknown[]): Schema | undefined {
  const values = schemas.flatMap((value) => {
    const { const: constant, enum: listed } = objectOf(value);
    return constant === undefined ? listOf(listed) : [constant];
  });
  const areAllListed = schemas.every(
    (value) => objectOf(value).const !== undefined || Array.isArray(objectOf(value).enum),
  );
  if (!areAllListed) return undefined;
  const { const: _, ...first } = objectOf(schemas[0]);
  return { ...first, enum: [...new Set(values)] };
}

const namesMax = 30;

function ruleOf(alternatives: readonly Schema[]): string {
  const sets = alternatives.map(({ properties, required, title }) => {
    const constants = Object.entries(objectOf(properties)).flatMap(([name, schema]) =>
      objectOf(schema).const === undefined ? [] : [`${name} = ${JSON.stringify(objectOf(schema).const)}`],
    );
    const names = listOf(required).filter((name) => !constants.some((constant) => constant.startsWith(`${name} =`)));
    const members = [...constants, ...names].slice(0, namesMax).join(", ");
    return `${textOf(title) === undefined ? "" : `${title}: `}${members === "" ? "any others" : members}`;
  });
  return `Give the properties of one of these sets: ${sets.map((set) => `(${set})`).join(", ")}.`;
}
