/**
 * The rules that vendors publish for the schemas of tools, as a checker: the fault of a schema, or
 * undefined. Gemini: the keywords of `parametersJsonSchema` and `responseJsonSchema`
 * (https://ai.google.dev/api/generate-content, and the types of @google/genai), names of parameters
 * (https://ai.google.dev/api/caching#FunctionDeclaration). Anthropic:
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use, and the words
 * of its errors: "input_schema does not support oneOf, allOf, or anyOf at the top level", "Property
 * keys should match pattern". OpenAI:
 * https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, and the words of
 * its errors: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at
 * the top level", "array schema missing items"; Google's word is "items: missing field".
 */
import { isDeepStrictEqual } from "node:util";

export type Schema = Record<string, unknown>;

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const types = ["string", "number", "integer", "boolean", "array", "object", "null"];
const schemaKeywords = [
  "items",
  "not",
  "if",
  "then",
  "else",
  "contains",
  "propertyNames",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
];
const listKeywords = ["anyOf", "oneOf", "allOf", "prefixItems"];
const mapKeywords = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/** A schema and all within it. */
export function* schemasIn(schema: unknown): Generator<Schema> {
  if (!isSchema(schema)) return;
  yield schema;
  for (const keyword of schemaKeywords) yield* schemasIn(schema[keyword]);
  for (const keyword of listKeywords)
    for (const one of (schema[keyword] as unknown[] | undefined) ?? []) yield* schemasIn(one);
  for (const keyword of mapKeywords)
    for (const one of Object.values(isSchema(schema[keyword]) ? schema[keyword] : {})) yield* schemasIn(one);
}

/** Rules of JSON Schema 2020-12 that every vendor checks. */
function generalFault(root: Schema): string | undefined {
  for (const schema of schemasIn(root)) {
    for (const type of [schema.type ?? []].flat())
      if (!types.includes(type as string)) return `type ${JSON.stringify(type)}`;
    for (const keyword of listKeywords)
      if (keyword in schema && !(Array.isArray(schema[keyword]) && (schema[keyword] as unknown[]).length > 0))
        return `${keyword} must have schemas`;
    for (const keyword of listKeywords)
      if (((schema[keyword] as unknown[] | undefined) ?? []).some((one) => !isSchema(one)))
        return `${keyword} has something that is no schema`;
    for (const keyword of mapKeywords)
      if (keyword in schema && !(isSchema(schema[keyword]) && Object.values(schema[keyword]).every(isSchema)))
        return `${keyword} has something that is no schema`;
    if ("items" in schema && !isSchema(schema.items)) return "items must be a schema";
    if ("enum" in schema && !(Array.isArray(schema.enum) && schema.enum.length > 0)) return "enum must have values";
    for (const name of (schema.required as unknown[] | undefined) ?? [])
      if (typeof name !== "string") return "required must have names";
    for (const keyword of ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
      if (keyword in schema && typeof schema[keyword] !== "number") return `${keyword} must be a number`;
    const { $ref } = schema;
    if ($ref !== undefined) {
      const [, keyword = "", name = ""] = /^#\/(\$defs|definitions)\/(.+)$/.exec(String($ref)) ?? [];
      if (!(isSchema(root[keyword]) && Object.hasOwn(root[keyword], name)))
        return `$ref ${JSON.stringify($ref)} leads nowhere`;
    }
  }
  return undefined;
}

function objectFault(root: Schema): string | undefined {
  if (root.type !== "object" || !isSchema(root.properties)) return "the root must be an object with properties";
  return ["anyOf", "oneOf", "allOf", "not", "enum"].find((keyword) => keyword in root);
}

const isListWithoutItems = ({ type, items, prefixItems }: Schema) =>
  [type].flat().includes("array") && items === undefined && prefixItems === undefined;

const geminiKeywords =
  "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering".split(
    " ",
  );

export function geminiFault(root: Schema): string | undefined {
  for (const schema of schemasIn(root)) {
    if (isListWithoutItems(schema)) return "items: missing field";
    const unknown = Object.keys(schema).find((keyword) => !geminiKeywords.includes(keyword));
    if (unknown !== undefined) return `unknown keyword ${unknown}`;
    if ("$ref" in schema && Object.keys(schema).some((keyword) => !keyword.startsWith("$")))
      return "$ref with other keywords";
    const values = (schema.enum as unknown[] | undefined) ?? [];
    if (values.some((value) => typeof value !== "number" && (typeof value !== "string" || value === "")))
      return "enum has other values than texts and numbers";
    const properties = isSchema(schema.properties) ? schema.properties : {};
    const bad = Object.keys(properties).find((name) => !/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name));
    if (bad !== undefined) return `property ${JSON.stringify(bad)}`;
    const missing = ((schema.required as string[] | undefined) ?? []).find((name) => !Object.hasOwn(properties, name));
    if (missing !== undefined) return `required ${JSON.stringify(missing)} is no property`;
  }
  return generalFault(root) ?? objectFault(root);
}

export function anthropicFault(root: Schema): string | undefined {
  for (const schema of schemasIn(root)) {
    const bad = Object.keys(isSchema(schema.properties) ? schema.properties : {}).find(
      (name) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(name),
    );
    if (bad !== undefined) return `property ${JSON.stringify(bad)}`;
  }
  return generalFault(root) ?? objectFault(root);
}

export function openaiFault(root: Schema): string | undefined {
  for (const schema of schemasIn(root)) if (isListWithoutItems(schema)) return "array schema missing items";
  return generalFault(root) ?? objectFault(root);
}

const strictFormats = "date-time time date duration email hostname ipv4 ipv6 uuid".split(" ");

/** Only for schemas that are marked strict. */
export function openaiStrictFault(root: Schema): string | undefined {
  for (const schema of schemasIn(root)) {
    if ("$ref" in schema && Object.keys(schema).length > 1) return "$ref cannot have keywords";
    if ("uniqueItems" in schema) return "'uniqueItems' is not permitted";
    if ("format" in schema && !strictFormats.includes(String(schema.format))) return "format is not valid";
    const properties = isSchema(schema.properties) ? schema.properties : undefined;
    if (![schema.type].flat().includes("object") && properties === undefined) continue;
    if (schema.additionalProperties !== false) return "additionalProperties must be false";
    if (
      !isDeepStrictEqual(
        new Set(Object.keys(properties ?? {})),
        new Set((schema.required as string[] | undefined) ?? []),
      )
    )
      return "all properties must be required";
  }
  return openaiFault(root);
}
