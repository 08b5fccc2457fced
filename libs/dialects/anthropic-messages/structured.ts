/** JSON schemas for Anthropic's structured outputs: https://platform.claude.com/docs/en/build-with-claude/structured-outputs */
import { definitionChainMax } from "../bounds.ts";
import { isObject, listOf, objectOf } from "../json.ts";

type Schema = Record<string, unknown>;

const stringFormats = ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/** Keywords that are sent unchanged. */
const plain = ["$ref", "type", "enum", "const", "required", "description", "title", "default"];
/** A schema without any of these allows everything. */
const saying = ["$ref", "type", "enum", "const", "anyOf", "allOf", "properties"];
/** Keywords without any effect on validation. */
const idle = ["$schema", "$id", "$comment", "examples"];

/**
 * The schema within the vendor's subset: objects are closed, and bounds and patterns move into descriptions, as in its client libraries. Undefined for a schema
 * that cannot be expressed: a recursive one, or one with objects whose members are not named.
 */
export function structuredSchemaOf(root: Schema): Schema | undefined {
  if (isRecursive(root)) return undefined;
  let isOpen = false;
  const closed = (value: unknown): Schema => {
    const schema = objectOf(value);
    const told: Schema = {};
    const untold: string[] = [];
    for (const [keyword, given] of Object.entries(schema)) {
      if (plain.includes(keyword)) told[keyword] = given;
      else if (keyword === "$defs" || keyword === "definitions" || keyword === "properties")
        told[keyword] = Object.fromEntries(
          Object.entries(objectOf(given)).map(([name, inner]) => [name, closed(inner)]),
        );
      else if (keyword === "anyOf" || keyword === "oneOf")
        told.anyOf = [...listOf(told.anyOf), ...listOf(given).map(closed)];
      else if (keyword === "allOf") told.allOf = listOf(given).map(closed);
      else if (keyword === "items" && !Array.isArray(given)) told.items = closed(given);
      else if (keyword === "format" && stringFormats.includes(String(given))) told.format = given;
      else if (keyword === "minItems" && (given === 0 || given === 1)) told.minItems = given;
      else if (keyword !== "additionalProperties" && !idle.includes(keyword))
        untold.push(`${keyword}: ${JSON.stringify(given)}`);
    }
    isOpen ||= !saying.some((keyword) => told[keyword] !== undefined);
    if ([schema.type].flat().includes("object") || told.properties !== undefined) {
      const { additionalProperties: others = told.properties === undefined } = schema;
      isOpen ||= others !== false;
      told.additionalProperties = false;
    }
    if (untold.length > 0)
      told.description = `${typeof told.description === "string" ? `${told.description}\n\n` : ""}{${untold.join(", ")}}`;
    return told;
  };
  const schema = closed(root);
  return isOpen ? undefined : schema;
}

/** True if a definition refers to itself, or a reference leaves the schema. */
function isRecursive({ $defs, definitions, ...root }: Schema): boolean {
  const known: Record<string, Schema> = { $defs: objectOf($defs), definitions: objectOf(definitions) };
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
    const definitions = known[keyword] ?? {};
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
