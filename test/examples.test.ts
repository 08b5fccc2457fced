/** The examples of catalogues in docs/examples. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { checkedCatalogue } from "#catalogue/check.ts";
import { loadCatalogue, parseCatalogue, variablesOf } from "#catalogue/load.ts";
import { exampleFiles, vendorsFile, vendorsPageOf } from "../docs/vendors.ts";

const environmentOf = (file: string) => {
  const { credentialVariables, addressVariables } = variablesOf(checkedCatalogue(file, {}));
  return Object.fromEntries([
    ...[...credentialVariables].map((variable) => [variable, "secret"]),
    ...[...addressVariables].map((variable) => [variable, variable.endsWith("_URL") ? "http://host" : "name"]),
  ]);
};

for (const file of exampleFiles())
  test(`the example ${basename(file)} offers all of its models where its variables are set`, () => {
    const { models, upstreams } = checkedCatalogue(file, {});
    const catalogue = loadCatalogue(file, environmentOf(file));
    assert.deepEqual([...catalogue.upstreams.keys()], Object.keys(upstreams));
    for (const { id } of models) {
      const model = catalogue.modelFor("default", id.replace("*", "any"));
      assert.ok(model, id);
      assert.ok(!model.route.some((target) => target.model.includes("*")));
    }
  });

const guide = readFileSync(join(import.meta.dirname, "../docs/models-and-routing.md"), "utf8");

test("the catalogues in the guide work, alone and with the wildcard", () => {
  const [example = "", equal = "", mirrored = "", limited = "", wildcard = "", ...others] = [
    ...guide.matchAll(/```yaml\n([\s\S]+?)```/g),
  ].map(([, text]) => text);
  assert.deepEqual(others, []);
  const modelsOf = (text: string, environment = {}) => parseCatalogue(Buffer.from(text), "guide", environment);
  assert.deepEqual(modelsOf(example).models, []);
  const environment = { OPENAI_API_KEY_FILE: "/run/secrets/openai" };
  assert.equal(modelsOf(example, environment).models[0]?.id, "gpt-4.1-mini");
  const head = example.slice(0, example.indexOf("upstreams:\n"));
  assert.equal(modelsOf(head + equal).models[0]?.strategy, "leastBusy");
  assert.equal(modelsOf(head + mirrored).models[0]?.mirror?.percent, 5);
  const { upstreams } = modelsOf(head + limited);
  assert.equal(upstreams.get("openai")?.credentialLimits?.requestsPerMinute, 5_000);
  const passed = modelsOf(example.slice(0, example.indexOf("models:\n")) + wildcard, environment);
  const targetOf = (id: string) => passed.modelFor("default", id)?.route.map(({ model }) => model);
  assert.deepEqual([targetOf("openai/gpt-foo"), targetOf("gpt-foo")], [["gpt-foo"], undefined]);
});

test("every vendor that the guide names has an example, and the page quotes all of them", () => {
  assert.equal(readFileSync(vendorsFile, "utf8"), vendorsPageOf());
  const [, names = ""] = /\[examples\]\(vendors\.md\) of ([\s\S]+?)\.\n/.exec(guide) ?? [];
  const vendors = names.split(/,\s+|\s+and\s+/).map((name) => name.replace(/\s+/g, " "));
  assert.ok(vendors.length >= 20, names);
  const titles = exampleFiles().map((file) => readFileSync(file, "utf8").split("\n", 1)[0]?.slice(2) as string);
  assert.deepEqual(vendors.toSorted(), titles.toSorted());
});
