/** Flattens a JSON schema: resolves its references and merges `allOf`. */

export type Schema = Record<string, unknown>;

const hopsMax = 24;

/** Why there is no example value; caught by `exampleOf`. */
export class NoExample extends Error {}

export const isObject = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Bounds come as numbers, or as strings from some Google clients. */
export const numberOf = (value: unknown): number | undefined => {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
};

/** The schema with its references resolved and `allOf` merged. */
export function plainOf(schema: Schema, root: unknown, hops = 0): Schema {
  if (hops > hopsMax) throw new NoExample("its references lead in a circle");
  const { $ref, ...own } = schema;
  const { allOf, ...rest } = typeof $ref === "string" ? mergedOf(plainTargetOf($ref, root, hops), own) : schema;
  let merged: Schema = rest;
  for (const part of listOf(allOf)) {
    if (part === false) throw new NoExample("nothing satisfies it");
    if (isObject(part)) merged = mergedOf(merged, plainOf(part, root, hops + 1));
  }
  return merged;
}

function plainTargetOf(reference: string, root: unknown, hops: number): Schema {
  const target = referenced(root, reference);
  if (target === true) return {};
  if (!isObject(target)) throw new NoExample(`there is no ${reference.slice(0, 80)} in it`);
  return plainOf(target, root, hops + 1);
}

function referenced(root: unknown, reference: string): unknown {
  if (!reference.startsWith("#")) throw new NoExample(`${reference.slice(0, 80)} is outside of it`);
  let target: unknown = root;
  for (const step of decodeURIComponent(reference.slice(1)).split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    target =
      typeof target === "object" && target !== null && Object.hasOwn(target, key)
        ? Reflect.get(target, key)
        : undefined;
  }
  return target;
}

/** A schema for values that satisfy both, as far as common keywords go. */
export function mergedOf(one: Schema, other: Schema): Schema {
  const merged: Schema = { ...one, ...other };
  if (isObject(one.properties) && isObject(other.properties)) {
    const properties: Schema = { ...one.properties };
    for (const [name, schema] of Object.entries(other.properties))
      properties[name] = name in properties ? { allOf: [properties[name], schema] } : schema;
    merged.properties = properties;
  }
  if (Array.isArray(one.required) && Array.isArray(other.required))
    merged.required = [...new Set([...one.required, ...other.required])];
  if (Array.isArray(one.enum) && Array.isArray(other.enum))
    merged.enum = one.enum.filter((value) => listOf(other.enum).includes(value));
  for (const [keyword, choose] of [
    ["minimum", Math.max],
    ["minLength", Math.max],
    ["minItems", Math.max],
    ["maximum", Math.min],
    ["maxLength", Math.min],
    ["maxItems", Math.min],
  ] as const) {
    const [first, second] = [numberOf(one[keyword]), numberOf(other[keyword])];
    if (first !== undefined && second !== undefined) merged[keyword] = choose(first, second);
  }
  return merged;
}
