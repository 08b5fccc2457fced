/**
 * Makes an example value of a JSON schema (2020-12, including older drafts and Gemini's capitalised
 * type names).
 */
import { textMatching } from "./pattern.ts";
import { isObject, listOf, mergedOf, NoExample, numberOf, plainOf, type Schema } from "./schema.ts";

export type Example = { kind: "example"; value: unknown } | { kind: "none"; fault: string };

export interface ExampleOptions {
  /** Chooses among equally good values. */
  seed: number;
  /** Texts to use where any text is valid, in order; used ones are removed. */
  texts: string[];
  /** Leaves out optional members if there are required ones. */
  sparing?: boolean;
}

interface Making {
  root: unknown;
  seed: number;
  texts: string[];
  sparing: boolean;
  nodes: number;
}

const depthMax = 24;
/**
 * Below this depth only required members are made, and the simplest alternative is tried first, so
 * that recursive schemas end.
 */
const lavishDepth = 4;
const nodesMax = 10_000;
const itemsMax = 1_000;
const lengthMax = 10_000;

/**
 * Ignores `not`, `if`, `contains`, `propertyNames`, and that alternatives of `oneOf` exclude each
 * other. Bounded in depth and size.
 */
export function exampleOf(schema: unknown, { seed, texts, sparing = false }: ExampleOptions): Example {
  try {
    return { kind: "example", value: make(schema, { root: schema, seed, texts, sparing, nodes: 0 }, 0, "") };
  } catch (error) {
    if (error instanceof NoExample) return { kind: "none", fault: error.message };
    throw error;
  }
}

function make(schema: unknown, making: Making, depth: number, name: string): unknown {
  if (++making.nodes > nodesMax || depth > depthMax) throw new NoExample("it is too deep or too large");
  if (schema === false) throw new NoExample("nothing satisfies it");
  if (!isObject(schema)) return stringValue({}, making, name);
  const plain = plainOf(schema, making.root);
  const branches = listOf(plain.anyOf ?? plain.oneOf);
  if (branches.length > 0) return branchValue(plain, branches, making, depth, name);
  if ("const" in plain) return plain.const;
  if (Array.isArray(plain.enum)) {
    if (plain.enum.length === 0) throw new NoExample("an enum is empty");
    return plain.enum[making.seed % plain.enum.length];
  }
  const type = typeOf(plain, depth);
  const offered = plain.example ?? listOf(plain.examples)[0] ?? plain.default;
  const isScalar = typeof offered === (type === "integer" ? "number" : type) && type !== "object";
  if (isScalar && !(type === "string" && making.texts.length > 0)) return offered;
  switch (type) {
    case "null":
      return null;
    case "boolean":
      return making.seed % 2 === 0;
    case "integer":
    case "number":
      return numberValue(plain, type, making.seed);
    case "array":
      return arrayValue(plain, making, depth, name);
    case "object":
      return objectValue(plain, making, depth);
    default:
      return stringValue(plain, making, name);
  }
}

function branchValue(
  { anyOf, oneOf, ...rest }: Schema,
  branches: unknown[],
  making: Making,
  depth: number,
  name: string,
): unknown {
  const isSimple = (branch: unknown) =>
    isObject(branch) &&
    !("$ref" in branch) &&
    !("properties" in branch) &&
    !("items" in branch) &&
    !("anyOf" in branch);
  const ordered =
    depth < lavishDepth ? branches : [...branches.filter(isSimple), ...branches.filter((branch) => !isSimple(branch))];
  let fault = new NoExample("no alternative can be satisfied");
  for (const branch of ordered) {
    if (!isObject(branch)) {
      if (branch === true) return make(rest, making, depth + 1, name);
      continue;
    }
    try {
      return make(mergedOf(rest, plainOf(branch, making.root)), making, depth + 1, name);
    } catch (error) {
      if (!(error instanceof NoExample)) throw error;
      fault = error;
    }
  }
  throw fault;
}

function typeOf(schema: Schema, depth: number): string {
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type])
    .filter((type) => typeof type === "string")
    .map((type) => type.toLowerCase());
  const scalar = depth < lavishDepth ? undefined : types.find((type) => type !== "object" && type !== "array");
  const type = scalar ?? types.find((one) => one !== "null") ?? types[0];
  if (type !== undefined) return type;
  if ("properties" in schema || "required" in schema || "additionalProperties" in schema) return "object";
  if ("items" in schema || "prefixItems" in schema || "minItems" in schema) return "array";
  if ("minimum" in schema || "maximum" in schema || "multipleOf" in schema) return "number";
  return "string";
}

function objectValue(schema: Schema, making: Making, depth: number): Schema {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(listOf(schema.required).filter((name) => typeof name === "string"));
  const value: Schema = {};
  const put = (name: string, content: unknown) =>
    Object.defineProperty(value, name, { value: content, enumerable: true, writable: true, configurable: true });
  for (const [name, property] of Object.entries(properties)) {
    if (!required.has(name) && (depth >= lavishDepth || (making.sparing && required.size > 0))) continue;
    try {
      put(name, make(property, making, depth + 1, name));
    } catch (error) {
      if (required.has(name) || !(error instanceof NoExample)) throw error;
    }
  }
  const others = schema.additionalProperties ?? true;
  for (const name of required) if (!Object.hasOwn(value, name)) put(name, make(others, making, depth + 1, name));
  const countMin = Math.min(numberOf(schema.minProperties) ?? 0, itemsMax);
  for (let index = 1; Object.keys(value).length < countMin; index++)
    put(`key${index}`, make(others, making, depth + 1, `key${index}`));
  return value;
}

function arrayValue(schema: Schema, making: Making, depth: number, name: string): unknown[] {
  const leading = Array.isArray(schema.items) ? schema.items : listOf(schema.prefixItems);
  const items = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  const countMin = numberOf(schema.minItems) ?? 0;
  const countMax = numberOf(schema.maxItems) ?? itemsMax;
  if (countMin > Math.min(itemsMax, countMax)) throw new NoExample("an array would be too long");
  const wanted = items === false ? leading.length : Math.max(leading.length, depth < lavishDepth ? 1 : 0);
  const count = Math.min(Math.max(countMin, wanted), countMax);
  const values: unknown[] = [];
  for (let index = 0; index < count; index++) {
    const item = leading[index] ?? items ?? true;
    const varied = schema.uniqueItems === true ? { ...making, seed: making.seed + index } : making;
    try {
      const value = make(item, varied, depth + 1, name);
      const repeated = varied !== making && typeof value === "string" && values.includes(value);
      values.push(repeated ? `${value} ${index + 1}` : value);
    } catch (error) {
      if (index < countMin || !(error instanceof NoExample)) throw error;
      break;
    }
    making.nodes = Math.max(making.nodes, varied.nodes);
  }
  return values;
}

function numberValue(schema: Schema, type: "integer" | "number", seed: number): number {
  const step = numberOf(schema.multipleOf) ?? (type === "integer" ? 1 : 0.5);
  let low = numberOf(schema.minimum) ?? Number.NEGATIVE_INFINITY;
  let high = numberOf(schema.maximum) ?? Number.POSITIVE_INFINITY;
  const above = schema.exclusiveMinimum === true ? low : numberOf(schema.exclusiveMinimum);
  const below = schema.exclusiveMaximum === true ? high : numberOf(schema.exclusiveMaximum);
  const allowed = (value: number) =>
    value >= low && value <= high && (above === undefined || value > above) && (below === undefined || value < below);
  if (above !== undefined) low = Math.max(low, above);
  if (below !== undefined) high = Math.min(high, below);
  const start =
    low > Number.NEGATIVE_INFINITY
      ? Math.ceil(low / step)
      : high < Number.POSITIVE_INFINITY
        ? Math.floor(high / step) - 10
        : 0;
  const first = 1 + (seed % 9);
  const candidates = [
    ...Array.from({ length: 11 }, (_, index) => Number(((start + ((first + index) % 11)) * step).toPrecision(15))),
    low,
    high,
    (low + high) / 2,
  ];
  const value = candidates.find(
    (candidate) => allowed(candidate) && (type === "number" || Number.isInteger(candidate)),
  );
  if (value === undefined) throw new NoExample("no number lies within its bounds");
  return value;
}

const textOfFormat: Record<string, string> = {
  "date-time": "2030-01-02T03:04:05Z",
  date: "2030-01-02",
  time: "03:04:05Z",
  duration: "P1D",
  email: "someone@example.com",
  "idn-email": "someone@example.com",
  hostname: "host.example.com",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  uri: "https://example.com/",
  "uri-reference": "/path",
  iri: "https://example.com/",
  url: "https://example.com/",
  uuid: "123e4567-e89b-42d3-a456-426614174000",
  "json-pointer": "/path",
  regex: "^a$",
  byte: "YQ==",
};

function stringValue(schema: Schema, { seed, texts }: Pick<Making, "seed" | "texts">, name: string): string {
  const shortest = numberOf(schema.minLength) ?? 0;
  const longest = numberOf(schema.maxLength) ?? lengthMax;
  if (shortest > Math.min(lengthMax, longest)) throw new NoExample("a text would be too long");
  if (typeof schema.pattern === "string") {
    const text = textMatching(schema.pattern, shortest);
    if (text === undefined || text.length > longest || text.length < shortest)
      throw new NoExample(`no text was found for the pattern ${schema.pattern.slice(0, 80)}`);
    return text;
  }
  const formatted = typeof schema.format === "string" ? textOfFormat[schema.format] : undefined;
  if (formatted !== undefined) return formatted;
  const text = texts[0];
  if (text !== undefined && text.length >= shortest && text.length <= longest) return texts.shift() as string;
  const word = `${name === "" ? "text" : name.replace(/[^\p{L}\p{N}]+/gu, " ").trim()} ${1 + (seed % 99)}`;
  return word.padEnd(shortest, "x").slice(0, longest);
}
