/**
 * Schemas of tools, for each vendor: accepted by its published rules, whatever the caller sends,
 * and with the caller's names in the answer.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import type { NeutralRequest, Tool } from "#dialects/neutral/neutral.ts";
import { callerArgumentsOf, toolSchemaOf } from "#dialects/schema/tool-schemas.ts";
import { isLong } from "../../../support/long.ts";
import {
  anthropicFault,
  geminiFault,
  openaiFault,
  openaiStrictFault,
  type Schema,
  schemasIn,
} from "../../../support/schema-rules.ts";
import { wireOf } from "../support.ts";

type Json = Record<string, unknown>;

const faultOf: Record<ConversationDialect, (schema: Schema) => string | undefined> = {
  "openai-chat": openaiFault,
  "openai-responses": openaiFault,
  "anthropic-messages": anthropicFault,
  gemini: geminiFault,
};

const toolOf = (parameters: Json, name = "f"): Tool => ({ name, callerName: name, parameters, path: "tools[0]" });
const requestOf = (tools: Tool[], input = "{}"): NeutralRequest => ({
  system: [],
  messages: [
    { role: "user", parts: [{ kind: "text", text: "Go", path: "m" }], path: "m" },
    { role: "assistant", parts: [{ kind: "call", id: "c", name: "f", input, path: "m" }], path: "m" },
    {
      role: "user",
      parts: [{ kind: "result", callId: "c", name: "f", content: [], isError: false, path: "m" }],
      path: "m",
    },
  ],
  tools,
  settings: {},
});

interface WireTool {
  name: string;
  schema: Schema;
  strict: boolean;
}

function toolsIn(body: Json): WireTool[] {
  return ((body.tools ?? []) as Json[]).flatMap((tool) => {
    const { functionDeclarations } = tool as { functionDeclarations?: Json[] };
    if (functionDeclarations !== undefined)
      return functionDeclarations.map((one) => ({
        name: String(one.name),
        schema: one.parametersJsonSchema as Schema,
        strict: false,
      }));
    const { name, parameters, input_schema, strict } = (tool.function ?? tool) as Json;
    return [{ name: String(name), schema: (parameters ?? input_schema) as Schema, strict: strict === true }];
  });
}

const object = (properties: Json, more: Json = {}): Json => ({ type: "object", properties, ...more });
const deep = (levels: number): Json => (levels === 0 ? { type: "string" } : object({ next: deep(levels - 1) }));
const wide: Json = object(
  { a: { $ref: "#/$defs/d0" } },
  {
    $defs: Object.fromEntries(
      Array.from({ length: 30 }, (_, place) => [
        `d${place}`,
        object({ a: { $ref: `#/$defs/d${place + 1}` }, b: { $ref: `#/$defs/d${place + 1}` } }),
      ]),
    ),
  },
);

/** Schemas that vendors refuse as they are, from public reports. */
const hostile: [string, Json][] = [
  [
    "a reference beside other keywords",
    object({ a: { $ref: "#/$defs/a", description: "An a" } }, { $defs: { a: { type: "string" } } }),
  ],
  ["definitions of draft-07", object({ a: { $ref: "#/definitions/a" } }, { definitions: { a: { type: "integer" } } })],
  [
    "a reference into the properties",
    object({ a: object({ b: { type: "string" } }), c: { $ref: "#/properties/a/properties/b" } }),
  ],
  [
    "a reference that leads nowhere",
    object({ a: { $ref: "#/$defs/absent" }, b: { $ref: "https://schemas.example/b.json" } }),
  ],
  ["a reference to itself", object({ a: { $ref: "#/properties/a" } })],
  [
    "a recursive type",
    object(
      { tree: { $ref: "#/$defs/tree" } },
      {
        $defs: {
          tree: object({ children: { type: "array", items: { $ref: "#/$defs/tree" } } }, { required: ["children"] }),
        },
      },
    ),
  ],
  [
    "references in a circle",
    object(
      { a: { $ref: "#/$defs/a" }, c: { $ref: "#/$defs/c" }, d: { $ref: "#/$defs/d" } },
      {
        $defs: {
          a: { $ref: "#/$defs/b" },
          b: { $ref: "#/$defs/a", description: "Back" },
          c: { anyOf: [{ $ref: "#/$defs/c" }, { type: "string" }] },
          d: { $ref: "#/properties/d" },
        },
      },
    ),
  ],
  [
    "anchors and identifiers",
    object(
      {
        a: { $ref: "#a" },
        b: { $ref: "https://example.com/b" },
        c: { $ref: "https://example.com/root#/$defs/a" },
        d: { $dynamicRef: "#tree" },
      },
      {
        $id: "https://example.com/root",
        $defs: {
          a: { $anchor: "a", type: "string" },
          b: { $id: "https://example.com/b", type: "integer" },
          tree: { $dynamicAnchor: "tree", type: "array", items: { $dynamicRef: "#tree" } },
        },
      },
    ),
  ],
  ["a reference to the root", object({ self: { $ref: "#" } })],
  ["a reference as the root", { $ref: "#/$defs/a", $defs: { a: object({ b: { type: "string" } }) } }],
  ["constants", object({ a: { const: "x" }, b: { const: 1 }, c: { const: true }, d: { const: null } })],
  [
    "empty and mixed values",
    object({ a: { enum: ["", "x"] }, b: { enum: [1, "x", null, true] }, c: { type: "string", enum: [] } }),
  ],
  [
    "alternatives within",
    object({
      a: { oneOf: [{ type: "string" }, { type: "number" }] },
      b: { allOf: [object({ c: {} }), object({ d: {} })] },
    }),
  ],
  [
    "types that may be null",
    object({
      a: { type: ["string", "null"] },
      b: { type: "string", nullable: true },
      c: { type: ["string", "number", "null"], minLength: 1 },
    }),
  ],
  [
    "formats and bounds",
    object({
      a: { type: "string", format: "uri", pattern: "^a", minLength: 2 },
      b: { type: "integer", exclusiveMinimum: 0, multipleOf: 2 },
      c: { type: "number", minimum: 1, exclusiveMinimum: true },
    }),
  ],
  [
    "lists without items and tuples",
    object({
      a: { type: "array" },
      b: { type: "array", items: [{ type: "string" }, {}], additionalItems: false },
      c: { items: true },
    }),
  ],
  [
    "alternatives at the root",
    {
      anyOf: [
        object({ kind: { const: "a" }, a: {} }, { required: ["kind", "a"] }),
        object({ kind: { const: "b" }, b: {} }, { required: ["kind"] }),
      ],
    },
  ],
  [
    "parts at the root",
    {
      type: "object",
      allOf: [object({ a: {} }, { required: ["a"] }), { $ref: "#/$defs/b" }],
      $defs: { b: object({ b: { type: "string" } }) },
    },
  ],
  ["a root of another type", { type: ["object", "null"], properties: { a: { type: "string" } } }],
  ["no type", { properties: { a: { properties: { b: {} } } } }],
  ["no schema", { type: "string" }],
  [
    "names that vendors refuse",
    object(
      {
        "file path": {},
        "@type": {},
        $ref: { type: "string" },
        "": {},
        naïve: {},
        "a.b": {},
        "kebab-case": {},
        ["x".repeat(100)]: {},
        "1st": {},
      },
      { required: ["file path", "@type"] },
    ),
  ],
  ["names that collide", object({ "a b": {}, a_b: {}, "a@b": object({ "a#b": {} }) })],
  [
    "names of prototypes",
    JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}},"required":["__proto__"]}',
    ),
  ],
  ["required names that do not exist", object({ a: {} }, { required: ["a", "b", 3] })],
  [
    "vendor keywords",
    object(
      { a: { type: "string", "x-order": 1, example: "a", markdownDescription: "m", $comment: "c" } },
      { $schema: "http://json-schema.org/draft-07/schema#", $id: "x" },
    ),
  ],
  [
    "types that do not exist",
    object({ a: { type: "any" }, b: { type: "STRING" }, c: { type: 7 }, d: "string", e: null, f: [] as never }),
  ],
  [
    "keywords with wrong values",
    {
      type: "object",
      properties: {
        a: { anyOf: [] },
        b: { anyOf: {} },
        c: { enum: "x" },
        d: { required: true, minimum: "x", description: 3, pattern: "(" },
      },
      required: "a",
    },
  ],
  ["no properties", { type: "object", properties: [], additionalProperties: "yes" }],
  [
    "conditions",
    object(
      { a: {} },
      {
        if: object({ a: { const: 1 } }),
        then: { required: ["a"] },
        not: { required: ["b"] },
        dependentRequired: { a: ["b"] },
      },
    ),
  ],
  ["a thousand levels", deep(1_000)],
  ["references that grow without end", wide],
  [
    "thousands of properties",
    object(Object.fromEntries(Array.from({ length: 5_000 }, (_, place) => [`p ${place}`, { type: "string" }]))),
  ],
];

for (const spoken of conversationDialects)
  test(`schemas that vendors refuse are accepted by the rules of ${spoken}, and every tool stays`, () => {
    const tools = hostile.map(([, schema], place) => toolOf(schema, `tool_${place}`));
    const wire = toolsIn(wireOf(requestOf(tools), spoken));
    assert.equal(wire.length, hostile.length);
    for (const [place, { schema }] of wire.entries()) {
      assert.equal(
        faultOf[spoken](schema),
        undefined,
        `${hostile[place]?.[0]}: ${JSON.stringify(schema).slice(0, 500)}`,
      );
      assert.ok([...schemasIn(schema)].length < 25_000);
    }
  });

test("what a keyword says survives in the description if the vendor does not enforce it", () => {
  const schemaFor = (schema: Json, spoken: ConversationDialect = "gemini") =>
    toolSchemaOf(toolOf(schema), spoken).schema;
  assert.deepEqual(schemaFor(object({ a: { type: "string", pattern: "^a", description: "An a" } })).properties, {
    a: { type: "string", description: 'An a\n\n{pattern: "^a"}' },
  });
  assert.deepEqual(schemaFor(object({ a: { type: "integer", exclusiveMinimum: 0 } })).properties, {
    a: { type: "integer", minimum: 1 },
  });
  assert.deepEqual(schemaFor(object({ a: { const: "x" } })).properties, { a: { type: "string", enum: ["x"] } });
  assert.deepEqual(schemaFor(object({ a: { type: "string", nullable: true } })).properties, {
    a: { type: ["string", "null"] },
  });
  assert.deepEqual(schemaFor(object({ a: { type: ["string", "integer"] } })).properties, {
    a: { anyOf: [{ type: "string" }, { type: "integer" }] },
  });
  assert.deepEqual(schemaFor(object({ a: { allOf: [{ type: "string" }, { description: "An a" }] } })).properties, {
    a: { type: "string", description: "An a" },
  });
  const united = schemaFor(
    {
      anyOf: [
        object({ kind: { const: "a" }, a: {} }, { required: ["kind", "a"] }),
        object({ kind: { const: "b" } }, { required: ["kind"] }),
      ],
    },
    "anthropic-messages",
  );
  assert.deepEqual(united, {
    type: "object",
    description: 'Give the properties of one of these sets: (kind = "a", a), (kind = "b").',
    properties: { kind: { enum: ["a", "b"] }, a: {} },
    required: ["kind"],
  });
});

test("what the root demands beyond its properties is in its description", () => {
  const roots: [Json, RegExp][] = [
    [
      { if: object({ a: { const: 1 } }), then: { required: ["b"] }, else: { required: ["c"] } },
      /\{if: \{.*"const":1.*\}, then: \{"required":\["b"\]\}, else: \{"required":\["c"\]\}\}$/,
    ],
    [{ not: { required: ["a", "b"] } }, /^An f\n\n\{not: \{"required":\["a","b"\]\}\}$/],
    [
      { allOf: [{ if: object({ a: { const: 1 } }), then: { required: ["b"] } }, { required: ["a"] }] },
      /\{allOf: \[\{"if":\{.*"then":\{"required":\["b"\]\}\}\]\}$/,
    ],
    [{ anyOf: [{ not: { required: ["a"] } }, { required: ["b"] }] }, /\{anyOf: .*"not":\{"required":\["a"\]\}/],
    [{ enum: [{ a: 1 }, { b: 2 }] }, /\{enum: \[\{"a":1\},\{"b":2\}\]\}/],
    [{ const: { a: 1 } }, /\{const: \{"a":1\}\}/],
  ];
  for (const [more, told] of roots)
    for (const spoken of conversationDialects) {
      const { schema } = toolSchemaOf(toolOf(object({ a: {}, b: {} }, { description: "An f", ...more })), spoken);
      assert.match(String(schema.description), told, spoken);
      assert.equal(faultOf[spoken](schema), undefined);
    }
});

test("references by anchor and by identifier name the same schemas as pointers", () => {
  const schema = object(
    { a: { $ref: "#a" }, b: { $ref: "https://example.com/b" }, tree: { $dynamicRef: "#tree" }, c: { $ref: "#inner" } },
    {
      $defs: {
        a: { $anchor: "a", type: "string" },
        b: { $id: "https://example.com/b", type: "integer" },
        tree: { $dynamicAnchor: "tree", type: "array", items: { $dynamicRef: "#tree" } },
        d: object({ e: { $anchor: "inner", type: "boolean" } }),
      },
    },
  );
  for (const spoken of ["openai-chat", "openai-responses", "anthropic-messages"] as const) {
    const { properties, $defs } = toolSchemaOf(toolOf(schema), spoken).schema as { properties: Json; $defs: Json };
    assert.deepEqual(properties, {
      a: { $ref: "#/$defs/a" },
      b: { $ref: "#/$defs/b" },
      tree: { $ref: "#/$defs/tree" },
      c: { type: "boolean" },
    });
    assert.deepEqual($defs.tree, { type: "array", items: { $ref: "#/$defs/tree" } });
  }
  const { properties } = toolSchemaOf(toolOf(schema), "gemini").schema as { properties: Json };
  assert.deepEqual(properties, {
    a: { type: "string" },
    b: { type: "integer" },
    tree: { type: "array", items: { type: "array", items: {} } },
    c: { type: "boolean" },
  });
});

test("a circle of references becomes any object, and a recursive type stays one", () => {
  const schema = object(
    { a: { $ref: "#/$defs/a" }, list: { $ref: "#/$defs/list" } },
    {
      $defs: {
        a: { $ref: "#/$defs/b" },
        b: { $ref: "#/$defs/a" },
        list: object({ next: { anyOf: [{ $ref: "#/$defs/list" }, { type: "null" }] } }),
      },
    },
  );
  for (const spoken of ["openai-chat", "openai-responses", "anthropic-messages"] as const) {
    const { properties, $defs } = toolSchemaOf(toolOf(schema), spoken).schema as { properties: Json; $defs: Json };
    assert.deepEqual(properties, { a: { type: "object" }, list: { $ref: "#/$defs/list" } });
    assert.deepEqual(Object.keys($defs), ["list"]);
  }
});

test("a schema without faults stays as it is for OpenAI and Anthropic", () => {
  const schema = object(
    {
      a: { $ref: "#/$defs/a" },
      "kebab-case": { type: "array", items: { type: "string" }, minItems: 2, default: [] },
      c: { oneOf: [{ type: "string", format: "uri" }, { const: 1 }] },
    },
    { required: ["a"], additionalProperties: false, $defs: { a: { type: "string", enum: ["x"] } } },
  );
  for (const spoken of ["openai-chat", "openai-responses", "anthropic-messages"] as const)
    assert.deepEqual(toolSchemaOf(toolOf(schema), spoken).schema, schema);
});

test("names of properties are mapped for the vendor in earlier calls, and back in the answer", () => {
  const tool = toolOf(object({ "file path": object({ "@id": {} }), ok: {} }));
  const args = { "file path": { "@id": 1 }, ok: [{ "@id": 2 }] };
  for (const spoken of ["anthropic-messages", "gemini"] as const) {
    const request = requestOf([tool], JSON.stringify(args));
    const body = JSON.stringify(wireOf(request, spoken));
    assert.ok(body.includes('{"file_path":{"_id":1},"ok":[{"_id":2}]}'), body);
    assert.deepEqual(
      JSON.parse(callerArgumentsOf(request, "f", spoken)?.('{"file_path":{"_id":1},"ok":[{"_id":2}]}') ?? ""),
      args,
    );
    assert.equal(callerArgumentsOf(requestOf([toolOf(object({ ok: {} }))]), "f", spoken), undefined);
  }
  assert.ok(JSON.stringify(wireOf(requestOf([tool], JSON.stringify(args)), "openai-chat")).includes('"file path"'));
});

test("only a schema that fits is marked strict", () => {
  const closed = object({ a: { type: "string" } }, { required: ["a"], additionalProperties: false });
  const schemas: [Json, boolean][] = [
    [closed, true],
    [object({ a: { type: "string" } }, { additionalProperties: false }), false],
    [object({ a: {} }, { required: ["a"], additionalProperties: false }), false],
    [{ ...closed, allOf: [closed] }, false],
  ];
  for (const [parameters, fits] of schemas)
    for (const spoken of ["openai-chat", "openai-responses"] as const) {
      const [tool] = toolsIn(wireOf(requestOf([{ ...toolOf(parameters), strict: true }]), spoken));
      assert.equal(tool?.strict, fits, `${spoken} ${JSON.stringify(parameters)}`);
      if (tool?.strict === true) assert.equal(openaiStrictFault(tool.schema), undefined);
    }
});

test("a strict schema is told what OpenAI refuses there, and has no keywords beside a reference", () => {
  const closed = (properties: Json): Json =>
    object(properties, { required: Object.keys(properties), additionalProperties: false });
  const city = closed({ name: { type: "string" } });
  const node = closed({ next: { $ref: "#/$defs/Node", description: "The next one." } });
  const cases: [string, Json, Json | undefined, Json | undefined][] = [
    ["a format", { type: "string", format: "uri" }, undefined, { type: "string", description: '{format: "uri"}' }],
    ["a known format", { type: "string", format: "uuid", minLength: 1 }, undefined, undefined],
    [
      "distinct items",
      { type: "array", items: { type: "string" }, uniqueItems: true, description: "Names." },
      undefined,
      { type: "array", items: { type: "string" }, description: "Names.\n\n{uniqueItems: true}" },
    ],
    ["a property with the name of a keyword", closed({ format: { type: "string" } }), undefined, undefined],
    ["a reference alone", { $ref: "#/$defs/City" }, { City: city }, undefined],
    [
      "a described reference",
      { $ref: "#/$defs/City", description: "Where." },
      { City: city },
      { ...city, description: "Where." },
    ],
    ["a wrapped reference", { allOf: [{ $ref: "#/$defs/City" }] }, { City: city }, { $ref: "#/$defs/City" }],
    [
      "a wrapped, described reference",
      { allOf: [{ $ref: "#/$defs/City" }], description: "Where." },
      { City: city },
      { ...city, description: "Where." },
    ],
    [
      "a described reference in a circle",
      { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }] },
      { Node: node },
      undefined,
    ],
  ];
  for (const [name, value, $defs, expected] of cases) {
    const parameters = { ...closed({ a: value }), ...($defs !== undefined && { $defs }) };
    for (const spoken of ["openai-chat", "openai-responses"] as const) {
      const [tool] = toolsIn(wireOf(requestOf([{ ...toolOf(parameters), strict: true }]), spoken));
      assert.equal(tool?.strict, true, name);
      assert.equal(openaiStrictFault(tool.schema), undefined, name);
      assert.deepEqual((tool.schema.properties as Json).a, expected ?? value, name);
      const [loose] = toolsIn(wireOf(requestOf([toolOf(parameters)]), spoken));
      assert.deepEqual(loose?.schema.properties, { a: value }, name);
    }
  }
});

test("a reference at the root of a schema for the answer is followed, so that OpenAI enforces it", () => {
  const node = object(
    { next: { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }] } },
    { required: ["next"], additionalProperties: false },
  );
  const format = {
    value: { kind: "schema" as const, schema: { $ref: "#/$defs/Node", $defs: { Node: node } } },
    path: "p",
  };
  const request = { ...requestOf([]), messages: requestOf([]).messages.slice(0, 1), settings: { format } };
  const { response_format: wire } = wireOf(request, "openai-chat") as { response_format: { json_schema: Json } };
  assert.deepEqual(wire.json_schema, { name: "answer", schema: { ...node, $defs: { Node: node } }, strict: true });
});

test("a schema for the answer whose root is no object is an instruction for OpenAI's models", () => {
  const format = {
    value: { kind: "schema" as const, schema: { type: "array", items: { type: "string" } }, name: "a b" },
    path: "p",
  };
  for (const spoken of ["openai-chat", "openai-responses"] as const) {
    const body = wireOf(
      { ...requestOf([]), messages: requestOf([]).messages.slice(0, 1), settings: { format } },
      spoken,
    );
    assert.ok(!("response_format" in body) && !("text" in body));
    assert.match(JSON.stringify(body), /fits the following JSON schema/);
  }
});

const word = fc.constantFrom("a", "b c", "$ref", "x-y", "__proto__", "");
const scalar = fc.oneof(
  fc.constantFrom("string", "object", "array", "null", "any", "integer"),
  fc.integer({ min: -2, max: 2 }),
  fc.boolean(),
  fc.constant(null),
);
const { schema: anySchema } = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 5, depthSize: "small" },
    scalar,
    fc.record(
      {
        type: fc.oneof(scalar, fc.array(scalar, { maxLength: 3 })),
        properties: fc.oneof(scalar, fc.dictionary(word, tie("schema"), { maxKeys: 4 })),
        required: fc.oneof(scalar, fc.array(fc.oneof(word, scalar), { maxLength: 3 })),
        items: fc.oneof(tie("schema"), fc.array(tie("schema"), { maxLength: 3 })),
        anyOf: fc.oneof(scalar, fc.array(tie("schema"), { maxLength: 3 })),
        oneOf: fc.array(tie("schema"), { maxLength: 3 }),
        allOf: fc.array(tie("schema"), { maxLength: 3 }),
        $ref: fc.constantFrom(
          "#",
          "#/$defs/a",
          "#/definitions/b",
          "#/properties/a",
          "#/$defs/absent",
          "other.json",
          "#/%E0%A4%A",
        ),
        $defs: fc.oneof(scalar, fc.dictionary(fc.constantFrom("a", "b"), tie("schema"))),
        definitions: fc.dictionary(fc.constantFrom("a", "b"), tie("schema")),
        enum: fc.oneof(scalar, fc.array(scalar, { maxLength: 3 })),
        const: scalar,
        minimum: scalar,
        exclusiveMinimum: scalar,
        additionalProperties: tie("schema"),
        patternProperties: fc.dictionary(word, tie("schema"), { maxKeys: 2 }),
        not: tie("schema"),
        nullable: scalar,
        description: scalar,
      },
      { requiredKeys: [] },
    ),
  ),
}));
const anyRoot = anySchema.filter((value): value is Json => typeof value === "object" && value !== null);

test("any schema is accepted by the rules of every vendor", () => {
  fc.assert(
    fc.property(anyRoot, fc.boolean(), (parameters, strict) => {
      for (const spoken of conversationDialects)
        for (const tool of toolsIn(wireOf(requestOf([{ ...toolOf(parameters), strict }]), spoken))) {
          assert.equal(faultOf[spoken](tool.schema), undefined, `${spoken}: ${JSON.stringify(tool.schema)}`);
          if (tool.strict && spoken.startsWith("openai"))
            assert.equal(openaiStrictFault(tool.schema), undefined, JSON.stringify(tool.schema));
        }
    }),
    { numRuns: isLong ? 1_000 : 100 },
  );
});

test("arguments for any schema come back with the caller's names", () => {
  const args = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.integer(),
      fc.array(tie("value"), { maxLength: 2 }),
      fc.dictionary(word, tie("value"), { maxKeys: 3 }),
    ),
  })).value;
  fc.assert(
    fc.property(
      fc.dictionary(word, anySchema, { maxKeys: 4 }),
      fc.dictionary(word, args, { maxKeys: 3 }),
      (properties, callArguments) => {
        const request = requestOf([toolOf(object(properties))], JSON.stringify(callArguments));
        for (const spoken of ["anthropic-messages", "gemini"] as const) {
          const body = wireOf(request, spoken);
          const sent =
            (body.messages as { content: Json[] }[] | undefined)?.[1]?.content[0]?.input ??
            (body.contents as { parts: { functionCall?: Json }[] }[] | undefined)?.[1]?.parts[0]?.functionCall?.args;
          const back = callerArgumentsOf(request, "f", spoken)?.(JSON.stringify(sent)) ?? JSON.stringify(sent);
          assert.deepEqual(JSON.parse(back), JSON.parse(JSON.stringify(callArguments)));
        }
      },
    ),
    { numRuns: isLong ? 500 : 60 },
  );
});
