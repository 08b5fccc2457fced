/**
 * References within a schema: pointers, anchors, and identifiers of embedded schemas.
 * https://json-schema.org/draft/2020-12/json-schema-core#name-schema-references
 */

import { isObject, type JsonObject, objectOf } from "#wire/json/parse.ts";
import { schemaDepthMax, schemaNodesMax } from "../bounds.ts";

export type Schema = JsonObject;

const pointerLengthMax = 1_000;

/**
 * The reference of a schema; those that an anchor of the place of use decides count as plain ones.
 */
export const referenceIn = ({ $ref, $dynamicRef, $recursiveRef }: Schema) =>
  [$ref, $dynamicRef, $recursiveRef].find((reference) => typeof reference === "string");

/** The schema without its reference. */
export function withoutReference({
  $ref: _,
  $dynamicRef: _dynamic,
  $recursiveRef: _recursive,
  ...rest
}: Schema): Schema {
  return rest;
}

/**
 * The target of a reference such as `#/$defs/a`, `#/properties/b` or `#anchor`; undefined for one
 * that leads nowhere.
 */
export function referenced(root: Schema, reference: string): unknown {
  if (reference.length > pointerLengthMax) return undefined;
  const hash = reference.indexOf("#");
  const address = hash < 0 ? reference : reference.slice(0, hash);
  const fragment = hash < 0 ? "" : decoded(reference.slice(hash + 1));
  const isRoot = address === "" || address === root.$id || address === root.id;
  const resource = isRoot ? root : namesIn(root).get(address);
  if (fragment === "" || resource === undefined) return resource;
  return fragment.startsWith("/") ? valueAt(resource, fragment) : namesIn(root).get(`#${fragment}`);
}

function valueAt(resource: unknown, pointer: string): unknown {
  let target = resource;
  for (const step of pointer.slice(1).split("/")) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(target) || !Object.hasOwn(target, key)) return undefined;
    target = (target as JsonObject)[key];
  }
  return target;
}

function decoded(pointer: string): string {
  try {
    return decodeURIComponent(pointer);
  } catch {
    return pointer;
  }
}

const namesOfRoots = new WeakMap<Schema, Map<string, Schema>>();

/** The schemas that have a name, by `#` with their anchor and by their identifier. */
function namesIn(root: Schema): Map<string, Schema> {
  const cachedNames = namesOfRoots.get(root);
  if (cachedNames !== undefined) return cachedNames;
  const names = new Map<string, Schema>();
  namesOfRoots.set(root, names);
  let left = schemaNodesMax;
  const visit = (value: unknown, depth: number) => {
    if (!isObject(value) || depth > 4 * schemaDepthMax || left-- <= 0) return;
    if (!Array.isArray(value)) {
      const { $anchor, $dynamicAnchor, $id, id } = value;
      for (const anchor of [$anchor, $dynamicAnchor])
        if (typeof anchor === "string" && !names.has(`#${anchor}`)) names.set(`#${anchor}`, value);
      for (const identifier of [$id, id])
        if (typeof identifier === "string" && !names.has(identifier)) names.set(identifier, value);
    }
    for (const member of Object.values(value)) visit(member, depth + 1);
  };
  visit(root, 0);
  return names;
}

/**
 * The keyword and the name of a definition at the root that a reference names; undefined for
 * anything else.
 */
export function definitionIn(root: Schema, reference: string): [keyword: string, name: string] | undefined {
  const target = referenced(root, reference);
  if (!isObject(target)) return undefined;
  for (const keyword of ["$defs", "definitions"]) {
    const [name] = Object.entries(objectOf(root[keyword])).find(([, definition]) => definition === target) ?? [];
    if (name !== undefined) return /[/~%]/.test(name) ? undefined : [keyword, name];
  }
  return undefined;
}

/**
 * Finds references that lead back to themselves without naming any value in between: nothing fits
 * them, and vendors refuse them.
 */
export class ReferenceLoops {
  readonly #root: Schema;
  readonly #isLoop = new Map<string, boolean>();

  constructor(root: Schema) {
    this.#root = root;
  }

  /** True for a reference in such a loop, or that leads to one. */
  has(reference: string, depth = 0): boolean {
    const isLoop = this.#isLoop.get(reference);
    if (isLoop !== undefined) return isLoop;
    if (depth > schemaDepthMax) return true;
    this.#isLoop.set(reference, true);
    const target = referenced(this.#root, reference);
    const loops = referencesBeside(target, 0).some((next) => this.has(next, depth + 1));
    this.#isLoop.set(reference, loops);
    return loops;
  }
}

const besideKeywords = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/** The references that apply to the same value as a schema. */
function referencesBeside(schema: unknown, depth: number): string[] {
  if (Array.isArray(schema)) return schema.flatMap((one) => referencesBeside(one, depth));
  if (!isObject(schema) || depth > schemaDepthMax) return [];
  const reference = referenceIn(schema);
  const inner = besideKeywords.flatMap((keyword) => referencesBeside(schema[keyword], depth + 1));
  return reference === undefined ? inner : [reference, ...inner];
}

/** A schema for what both allow, as far as common keywords go; `more` wins. */
export function mergedWith(schema: Schema, more: Schema): Schema {
  if (Object.keys(more).length === 0) return schema;
  const merged: Schema = { ...schema, ...more };
  if (isObject(schema.properties) && isObject(more.properties))
    merged.properties = { ...objectOf(schema.properties), ...objectOf(more.properties) };
  if (Array.isArray(schema.required) && Array.isArray(more.required))
    merged.required = [...new Set([...schema.required, ...more.required])];
  if (Array.isArray(schema.allOf) && Array.isArray(more.allOf)) merged.allOf = [...schema.allOf, ...more.allOf];
  return merged;
}
