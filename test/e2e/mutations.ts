/** Every request that differs from a valid one in one field: gone, null, or of another type. */

export interface Mutation {
  kind: "missing" | "null" | "type" | "value";
  /** As the caller would write it: `messages[0].content`. */
  path: string;
  value?: unknown;
  body: Record<string, unknown>;
}

type Step = string | number;

/** A value of every other type. */
const others = (value: unknown): unknown[] => {
  const kinds: [string, unknown][] = [
    ["string", "x"],
    ["number", 7.5],
    ["boolean", true],
    ["object", { x: 1 }],
    ["array", [[]]],
  ];
  const kind = Array.isArray(value) ? "array" : typeof value;
  return kinds.filter(([name]) => name !== kind).map(([, other]) => other);
};

export const stepsOf = (path: string): Step[] => [...path.matchAll(/[^.[\]]+/g)].map(([step]) => (/^\d+$/.test(step) ? Number(step) : step));

export const pathOf = (steps: readonly Step[]): string =>
  steps.reduce<string>((path, step) => (typeof step === "number" ? `${path}[${step}]` : path === "" ? step : `${path}.${step}`), "");

function* stepsIn(value: unknown, steps: Step[] = []): Generator<{ steps: Step[]; value: unknown }> {
  if (steps.length > 0) yield { steps, value };
  if (Array.isArray(value)) for (const [place, inner] of value.entries()) yield* stepsIn(inner, [...steps, place]);
  else if (typeof value === "object" && value !== null) for (const [name, inner] of Object.entries(value)) yield* stepsIn(inner, [...steps, name]);
}

export function withValue<Shape>(body: Shape, steps: readonly Step[], value: unknown): Shape {
  const copy = JSON.parse(JSON.stringify(body)) as Shape;
  let at = copy as Record<Step, unknown>;
  for (const step of steps.slice(0, -1)) at = at[step] as Record<Step, unknown>;
  const last = steps.at(-1) as Step;
  if (value !== undefined) at[last] = value;
  else if (Array.isArray(at)) at.splice(last as number, 1);
  else delete at[last];
  return copy;
}

export function mutationsOf(body: Record<string, unknown>): Mutation[] {
  const mutations: Mutation[] = [];
  for (const { steps, value } of stepsIn(body)) {
    const path = pathOf(steps);
    if (typeof steps.at(-1) === "string") mutations.push({ kind: "missing", path, body: withValue(body, steps, undefined) });
    mutations.push({ kind: "null", path, value: null, body: withValue(body, steps, null) });
    for (const other of others(value)) mutations.push({ kind: "type", path, value: other, body: withValue(body, steps, other) });
  }
  return mutations;
}
