/**
 * Every request that differs from a valid one in one field: gone, null, of another type, or with a
 * value that is given.
 */
import type { Body } from "./rich-request.ts";

export interface Mutation {
  kind: "missing" | "null" | "type" | "value";
  /** As the caller would write it: `messages[0].content`. */
  path: string;
  value?: unknown;
  body: Body;
}

type Step = string | number;

const wrong: [type: string, value: unknown][] = [
  ["string", "x"],
  ["object", { x: 1 }],
  ["number", 7.5],
  ["array", [[]]],
  ["boolean", true],
];

/** Values of types that it is not of. */
function othersThan(value: unknown, count: number): [type: string, value: unknown][] {
  const own = Array.isArray(value) ? "array" : typeof value;
  return wrong.filter(([type]) => type !== own).slice(0, count);
}

const stepsOf = (path: string): Step[] =>
  [...path.matchAll(/[^.[\]]+/g)].map(([step]) => (/^\d+$/.test(step) ? Number(step) : step));

const pathOf = (steps: readonly Step[]): string =>
  steps.reduce<string>(
    (path, step) => (typeof step === "number" ? `${path}[${step}]` : path === "" ? step : `${path}.${step}`),
    "",
  );

function* fieldsIn(value: unknown, steps: Step[] = []): Generator<{ steps: Step[]; value: unknown }> {
  if (steps.length > 0) yield { steps, value };
  if (Array.isArray(value)) for (const [place, inner] of value.entries()) yield* fieldsIn(inner, [...steps, place]);
  else if (typeof value === "object" && value !== null)
    for (const [name, inner] of Object.entries(value)) yield* fieldsIn(inner, [...steps, name]);
}

/** The same with another value at a path; without the field where it is undefined. */
function changed(body: Body, steps: readonly Step[], value: unknown): Body {
  const copy = structuredClone(body);
  let at = copy as Record<Step, unknown>;
  for (const step of steps.slice(0, -1)) at = at[step] as Record<Step, unknown>;
  const last = steps.at(-1) as Step;
  if (value !== undefined) at[last] = value;
  else if (Array.isArray(at)) at.splice(last as number, 1);
  else delete at[last];
  return copy;
}

export const without = (body: Body, paths: readonly string[]): Body =>
  paths.reduce((left, path) => changed(left, stepsOf(path), undefined), body);

export const withValue = (body: Body, path: string, value: unknown): Mutation => ({
  kind: "value",
  path,
  value,
  body: changed(body, stepsOf(path), value),
});

/**
 * Each field with so many values of wrong types, and gone, and null if that is wanted. Of items of
 * a list, none is left out.
 */
export function* mutationsOf(
  body: Body,
  wrongTypes: number,
  withNulls: boolean,
): Generator<Mutation & { type?: string }> {
  for (const { steps, value } of fieldsIn(body)) {
    const path = pathOf(steps);
    if (typeof steps.at(-1) === "string") yield { kind: "missing", path, body: changed(body, steps, undefined) };
    if (withNulls && value !== null) yield { kind: "null", path, value: null, body: changed(body, steps, null) };
    for (const [type, other] of othersThan(value, wrongTypes))
      yield { kind: "type", path, type, value: other, body: changed(body, steps, other) };
  }
}
