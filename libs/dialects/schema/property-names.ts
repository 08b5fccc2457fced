/**
 * Names of properties that a target does not accept, mapped there and back. Within a tool each name
 * has one name at the target, at every level, so that arguments can be mapped back without the
 * schema.
 */

import { isObject } from "#wire/json/parse.ts";
import { argumentsDepthMax, schemaDepthMax } from "../bounds.ts";
import type { Schema } from "./references.ts";

/** The names that a target accepts, and the most characters. */
export interface NameRule {
  accepted: RegExp;
  lengthMax: number;
}

export class PropertyNames {
  /** By the caller's name; only names that differ. */
  readonly #wireNames = new Map<string, string>();
  readonly #callerNames = new Map<string, string>();
  readonly #schema: Schema;
  readonly #rule: NameRule;
  /** All names of the schema, once one of them has to change. */
  #taken: Set<string> | undefined;

  constructor(schema: Schema, rule: NameRule) {
    this.#schema = schema;
    this.#rule = rule;
  }

  /** No name has changed so far. */
  get isEmpty(): boolean {
    return this.#wireNames.size === 0;
  }

  wireNameOf(name: string): string {
    if (this.#rule.accepted.test(name)) return name;
    const wireName = this.#wireNames.get(name);
    if (wireName !== undefined) return wireName;
    this.#taken ??= namesIn(this.#schema);
    const safe = name.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(?=\d|$)/, "_");
    let free = safe.slice(0, this.#rule.lengthMax);
    for (let number = 2; this.#taken.has(free); number++)
      free = `${safe.slice(0, this.#rule.lengthMax - 1 - String(number).length)}_${number}`;
    this.#taken.add(free);
    this.#wireNames.set(name, free);
    this.#callerNames.set(free, name);
    return free;
  }

  /** The target's names with the caller's, where they differ. */
  get pairs(): [string, string][] {
    return [...this.#callerNames];
  }

  /** The arguments with the target's names. */
  toWire(value: unknown): unknown {
    return renamed(value, this.#wireNames, 0);
  }
}

function namesIn(schema: unknown, names = new Set<string>(), depth = 0): Set<string> {
  if (!isObject(schema) || depth > 4 * schemaDepthMax) return names;
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === "properties" && isObject(value)) for (const name of Object.keys(value)) names.add(name);
    namesIn(value, names, depth + 1);
  }
  return names;
}

/** The arguments with other names, at every level. */
export function renamed(value: unknown, names: ReadonlyMap<string, string>, depth: number): unknown {
  if (!isObject(value) || depth > argumentsDepthMax) return value;
  if (Array.isArray(value)) return value.map((one) => renamed(one, names, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [names.get(name) ?? name, renamed(member, names, depth + 1)]),
  );
}
