import assert from "node:assert/strict";
import { test } from "node:test";
import { Compile } from "typebox/schema";
import { exampleOf } from "../../../apps/simulator/answer/example.ts";
import { workMsOf } from "../../support/time.ts";

const exampleValueOf = (schema: unknown, seed = 1, hints: string[] = []) => {
  const example = exampleOf(schema, { seed, texts: hints });
  assert.equal(example.kind, "example", JSON.stringify(schema));
  return example.kind === "example" ? example.value : undefined;
};

const satisfiable: Record<string, object> = {
  "every kind of value": {
    type: "object",
    properties: {
      a: { type: "string" },
      b: { type: "integer" },
      c: { type: "number" },
      d: { type: "boolean" },
      e: { type: "null" },
      f: { type: "array", items: { type: "string" } },
      g: { type: "object" },
    },
    required: ["a", "b", "c", "d", "e", "f", "g"],
    additionalProperties: false,
  },
  "bounded numbers": {
    type: "array",
    prefixItems: [
      { type: "integer", minimum: 5, maximum: 5 },
      { type: "integer", exclusiveMinimum: 3, exclusiveMaximum: 5 },
      { type: "number", minimum: 0.1, maximum: 0.2 },
      { type: "integer", multipleOf: 7, minimum: 50 },
      { type: "number", maximum: -1_000 },
    ],
    minItems: 5,
    maxItems: 5,
    items: false,
  },
  "bounded texts": {
    type: "object",
    properties: {
      long: { type: "string", minLength: 300 },
      short: { type: "string", maxLength: 2 },
      none: { type: "string", maxLength: 0 },
    },
    required: ["long", "short", "none"],
  },
  formats: {
    type: "object",
    properties: Object.fromEntries(
      ["date-time", "date", "time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"].map((format) => [
        format,
        { type: "string", format },
      ]),
    ),
    required: ["date", "uuid"],
  },
  patterns: {
    type: "object",
    properties: {
      a: { type: "string", pattern: "^[A-Z]{2}-\\d{3,5}$" },
      b: { type: "string", pattern: "^(foo|bar)(-[a-z0-9]+)*$" },
      c: { type: "string", pattern: "^[^\\s@]+@[^\\s@]+\\.[a-z]{2,}$" },
      d: { type: "string", pattern: "^\\w+$", minLength: 20 },
    },
    required: ["a", "b", "c", "d"],
  },
  "enums and constants": {
    type: "object",
    properties: { a: { enum: ["x", 1, null] }, b: { const: { deep: true } } },
    required: ["a", "b"],
  },
  alternatives: {
    type: "object",
    properties: {
      a: { anyOf: [{ type: "string" }, { type: "null" }] },
      b: {
        oneOf: [
          { type: "object", properties: { kind: { const: "one" } }, required: ["kind"] },
          { type: "object", properties: { kind: { const: "two" } }, required: ["kind"] },
        ],
      },
      c: { type: ["null", "integer"] },
    },
    required: ["a", "b", "c"],
  },
  "an alternative that cannot be": {
    anyOf: [false, { type: "string", minLength: 3, maxLength: 2 }, { type: "integer" }],
  },
  "parts that all hold": {
    allOf: [
      { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
      { properties: { b: { type: "integer", minimum: 3 } }, required: ["b"] },
      { properties: { b: { minimum: 8 } } },
    ],
  },
  "references, siblings and a list that holds itself": {
    $defs: {
      node: {
        type: "object",
        properties: { value: { type: "integer" }, next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } },
        required: ["value", "next"],
        additionalProperties: false,
      },
    },
    type: "object",
    properties: { head: { $ref: "#/$defs/node", description: "the first" } },
    required: ["head"],
  },
  "a tree that holds itself": {
    type: "object",
    properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#" } } },
    required: ["name", "children"],
  },
  "arrays of a length, and of different items": {
    type: "object",
    properties: {
      a: { type: "array", items: { type: "integer" }, minItems: 3, maxItems: 3 },
      b: { type: "array", items: { enum: ["x", "y", "z"] }, minItems: 3, uniqueItems: true },
      c: { type: "array", items: { type: "string" }, minItems: 3, uniqueItems: true },
    },
    required: ["a", "b", "c"],
  },
  "properties without a schema of their own": {
    type: "object",
    required: ["free"],
    additionalProperties: { type: "integer" },
    minProperties: 3,
  },
  "an object without a type": { properties: { a: { type: "string" } }, required: ["a"] },
};

for (const [name, schema] of Object.entries(satisfiable)) {
  test(`a value satisfies its schema: ${name}`, () => {
    const checked = Compile(schema);
    for (let seed = 0; seed < 40; seed++) {
      const value = exampleValueOf(schema, seed);
      assert.ok(checked.Check(value), `${JSON.stringify(value)}: ${JSON.stringify(checked.Errors(value))}`);
      assert.deepEqual(value, exampleValueOf(schema, seed));
    }
  });
}

test("Gemini's capitalised types and bounds in strings are understood", () => {
  const value = exampleValueOf({
    type: "OBJECT",
    properties: { count: { type: "INTEGER", minimum: "4", maximum: "4" } },
    required: ["count"],
  });
  assert.deepEqual(value, { count: 4 });
});

test("hints fill free texts in order, where they fit", () => {
  const hints = ["Oslo", "much too long", "x"];
  const value = exampleValueOf(
    {
      type: "object",
      properties: {
        city: { type: "string" },
        code: { type: "string", maxLength: 3 },
        day: { type: "string", format: "date" },
      },
    },
    1,
    hints,
  );
  assert.deepEqual(value, { city: "Oslo", code: "cod", day: "2030-01-02" });
  assert.deepEqual(hints, ["much too long", "x"]);
});

test("examples and defaults are used", () => {
  assert.deepEqual(
    exampleValueOf({
      type: "object",
      properties: { a: { type: "string", examples: ["first"] }, b: { type: "integer", default: 42 } },
    }),
    {
      a: "first",
      b: 42,
    },
  );
});

test("a contradictory schema has no example, and the error says why", () => {
  const impossible: unknown[] = [
    false,
    { type: "string", minLength: 5, maxLength: 4 },
    { type: "integer", minimum: 2, maximum: 1 },
    { $ref: "#/$defs/missing" },
    { $ref: "https://example.com/schema" },
    { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" },
    { type: "object", properties: { self: { $ref: "#" } }, required: ["self"] },
    { type: "array", items: { type: "string" }, minItems: 1_000_000 },
    { type: "string", pattern: "^(?=x)y$" },
  ];
  for (const schema of impossible) {
    const example = exampleOf(schema, { seed: 1, texts: [] });
    assert.equal(example.kind, "none", JSON.stringify(schema));
  }
});

test("a broad and deep schema is bounded", async () => {
  const properties = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`p${index}`, { $ref: "#" }]));
  const ms = await workMsOf(() => exampleOf({ type: "object", properties }, { seed: 1, texts: [] }));
  assert.ok(ms < 5_000, `${ms} ms`);
});

test("a property with the name of an inherited one is made like any other", () => {
  const value = exampleValueOf(
    JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"integer"},"constructor":{"type":"string"}},"required":["__proto__","constructor"]}',
    ),
  );
  assert.ok(Object.hasOwn(value as object, "__proto__") && Object.hasOwn(value as object, "constructor"));
});
