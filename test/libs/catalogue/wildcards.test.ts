import assert from "node:assert/strict";
import { test } from "node:test";
import { CatalogueFault } from "#catalogue/fault.ts";
import { parseCatalogue } from "#catalogue/load.ts";

const parse = (text: string, environment = {}) => parseCatalogue(Buffer.from(text), "c.yaml", environment);
const price = "{ inputPerMillion: 1, outputPerMillion: 2 }";

const catalogueWith = (models: string, groups = 'default: { models: ["*"] }') => `groups: { ${groups} }
upstreams:
  openai: { dialect: openai-chat, baseUrl: "https://api.example/v1" }
  fire: { dialect: openai-chat, baseUrl: "https://fire.example/v1", requires: FIRE }
models:
${models}`;

const passThrough = catalogueWith(
  `  - { id: "openai/*", prices: ${price}, pricesByModel: { gpt-known: { inputPerMillion: 5, outputPerMillion: 6 } }, queue: image, route: [{ upstream: openai, model: "*" }] }
  - { id: "openai/gpt-exact", prices: ${price}, route: [{ upstream: openai, model: gpt-special }] }
  - { id: "openai/ft:*", prices: ${price}, route: [{ upstream: openai, model: "tuned/*" }] }
  - { id: "fire/*", prices: ${price}, route: [{ upstream: fire, model: "accounts/fire/models/*" }, { upstream: openai, model: all }] }
  - { id: "priced/*", pricesByModel: { one: ${price} }, route: [{ upstream: openai, model: "*" }] }
`,
  'default: { models: ["*"] }, narrow: { models: ["openai/gpt-*", "priced/one"] }',
);
const targetsOf = (id: string, environment = {}, group = "default") =>
  parse(passThrough, environment)
    .modelFor(group, id)
    ?.route.map(({ upstream, model }) => `${upstream}: ${model}`);

test("a wildcard passes the rest of a name through; an entry with the name or a longer beginning comes first", () => {
  for (const [id, targets] of [
    ["openai/gpt-foo", ["openai: gpt-foo"]],
    ["openai/vendor/model:1", ["openai: vendor/model:1"]],
    ["openai/$&", undefined],
    ["openai/gpt-exact", ["openai: gpt-special"]],
    ["openai/gpt-known", ["openai: gpt-known"]],
    ["openai/ft:mine", ["openai: tuned/mine"]],
    ["fire/kimi", ["openai: all"]],
    ["priced/one", ["openai: one"]],
    ["priced/two", undefined],
    ["gpt-foo", undefined],
  ] as const)
    assert.deepEqual(targetsOf(id), targets, id);
  assert.deepEqual(targetsOf("fire/kimi", { FIRE: "1" }), ["fire: accounts/fire/models/kimi", "openai: all"]);
});

test("a name cannot lead to another path of the upstream, or be anything but a model's id", () => {
  for (const name of ["", ".", "..", "../files", "a/../b", "a//b", "/a", "a/", "a/.", "a b", "a?b", "a#b", "a%2e", "é"])
    assert.equal(targetsOf(`openai/${name}`), undefined, name);
  assert.ok(targetsOf(`openai/${"a".repeat(121)}`));
  assert.equal(targetsOf(`openai/${"a".repeat(122)}`), undefined);
  for (const name of ["*", "openai/*"]) assert.equal(targetsOf(name), undefined, name);
});

test("a passed model has the wildcard's settings, its own prices or the wildcard's, and the name that was asked for", () => {
  const catalogue = parse(passThrough);
  const model = catalogue.modelFor("default", "openai/gpt-foo");
  assert.deepEqual(
    [model?.id, model?.name, model?.queue, model?.prices.inputPerMillion],
    ["openai/gpt-foo", "openai/gpt-foo", "image", 1],
  );
  assert.equal(catalogue.modelFor("default", "openai/gpt-known")?.prices.inputPerMillion, 5);
  assert.ok(Object.isFrozen(model?.route[0]));
  assert.equal(catalogue.modelWith("openai/gpt-foo"), model);
});

test("lists have the models whose prices are listed, and groups decide about each model", () => {
  const catalogue = parse(passThrough);
  const ids = (group: string) => catalogue.modelsOf(group).map(({ id }) => id);
  assert.deepEqual(ids("default"), ["openai/gpt-known", "openai/gpt-exact", "priced/one"]);
  assert.deepEqual(ids("narrow"), ["openai/gpt-known", "openai/gpt-exact", "priced/one"]);
  assert.ok(targetsOf("openai/gpt-foo", {}, "narrow"));
  for (const id of ["openai/o9", "fire/kimi"]) assert.equal(targetsOf(id, {}, "narrow"), undefined);
  assert.equal(targetsOf("openai/gpt-foo", {}, "none"), undefined);
  assert.deepEqual(
    catalogue.wildcardsOf("narrow").map(({ id }) => id),
    ["openai/*"],
  );
  assert.ok(catalogue.declaredModels.has("openai/gpt-foo") && catalogue.declaredModels.has("priced/one"));
  assert.ok(!catalogue.declaredModels.has("priced/two") && !catalogue.declaredModels.has("other"));
});

test("a label is bounded: models that are not listed share that of their wildcard", () => {
  const { labelOf } = parse(passThrough);
  assert.deepEqual(["openai/gpt-known", "openai/gpt-exact", "openai/gpt-1", "openai/ft:1", "removed"].map(labelOf), [
    "openai/gpt-known",
    "openai/gpt-exact",
    "openai/*",
    "openai/ft:*",
    "other",
  ]);
});

test("any number of names leaves the catalogue usable", () => {
  const catalogue = parse(passThrough);
  for (let index = 0; index < 3_000; index++)
    assert.equal(catalogue.modelFor("default", `openai/m-${index}`)?.route[0]?.model, `m-${index}`);
});

test("a group, a fallback and a catch-all may name models of a wildcard", () => {
  const text = catalogueWith(
    `  - { id: "*", prices: ${price}, route: [{ upstream: openai, model: "*" }] }
  - { id: mine, prices: ${price}, fallbacks: [gpt-foo], route: [{ upstream: openai, model: mine }] }
`,
    "default: { models: [gpt-foo, mine] }",
  );
  const catalogue = parse(text);
  assert.equal(catalogue.modelFor("default", "gpt-foo")?.route[0]?.model, "gpt-foo");
  assert.equal(catalogue.modelFor("default", "gpt-bar"), undefined);
});

test("mistakes in wildcards are named", () => {
  for (const [entry, fault] of [
    [
      `{ id: "a/*", route: [{ upstream: openai, model: "*" }] }`,
      "models[0].prices: missing: a wildcard needs `prices` for all of its models (0 if they are free), or `pricesByModel`",
    ],
    [`{ id: a, route: [{ upstream: openai, model: a }] }`, "models[0].prices: missing"],
    [
      `{ id: a, prices: ${price}, pricesByModel: {}, route: [{ upstream: openai, model: a }] }`,
      "models[0].pricesByModel: needs an id that ends in `*`",
    ],
    [
      `{ id: a, prices: ${price}, route: [{ upstream: openai, model: "*" }] }`,
      "models[0].route[0].model: may contain `*` only at its end, and only if the id ends in `*`",
    ],
    [
      `{ id: "a/*", prices: ${price}, route: [{ upstream: openai, model: "*/x" }] }`,
      "models[0].route[0].model: may contain `*` only at its end, and only if the id ends in `*`",
    ],
    [
      `{ id: "a/*", pricesByModel: { "../x": ${price} }, route: [{ upstream: openai, model: "*" }] }`,
      'models[0].pricesByModel.../x: "a/../x" cannot be a model\'s name',
    ],
    [
      `{ id: "a/*", pricesByModel: { x: { inputPerMillion: 0.0000000001, outputPerMillion: 0 } }, route: [{ upstream: openai, model: "*" }] }`,
      "models[0].pricesByModel.x.inputPerMillion: has more than nine decimals",
    ],
    [
      `{ id: "a/*", pricesByModel: { x: { inputPerMillion: 0 } }, route: [{ upstream: openai, model: "*" }] }`,
      "models[0].pricesByModel.x.outputPerMillion: missing",
    ],
    [`{ id: "a*b", prices: ${price}, route: [{ upstream: openai, model: a }] }`, "models[0].id: must be 1 to 128"],
  ] as const)
    assert.throws(
      () => parse(catalogueWith(`  - ${entry}\n`)),
      (error) => error instanceof CatalogueFault && error.message.includes(` ${fault}`),
      fault,
    );
  const twice = `  - { id: "a/*", pricesByModel: { x: ${price} }, route: [{ upstream: openai, model: "*" }] }
  - { id: a/x, prices: ${price}, route: [{ upstream: openai, model: x }] }
`;
  assert.throws(() => parse(catalogueWith(twice)), /pricesByModel\.x: "a\/x" is already the id of another entry/);
});
