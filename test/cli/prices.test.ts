import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { CatalogueFault } from "#catalogue/fault.ts";
import { type CheckedPrices, readComparedPrices } from "#catalogue/list-prices.ts";
import { loadCatalogueFile } from "#catalogue/load.ts";
import { pricesCommand } from "../../apps/cli/prices.ts";

const directory = await mkdtemp(join(tmpdir(), "prices-"));
after(() => rm(directory, { recursive: true }));
const root = join(import.meta.dirname, "../..");

/** Runs `sluice prices …` on this catalogue. */
async function prices(catalogue: string, ...args: string[]) {
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, catalogue);
  return pricesOf(file, ...args);
}

function pricesOf(file: string, ...args: string[]) {
  const written = { out: "", err: "" };
  const output = {
    out: (text: string) => {
      written.out += text;
    },
    err: (text: string) => {
      written.err += text;
    },
  };
  return { code: pricesCommand(args, { SLUICE_CATALOGUE: file }, output), ...written };
}

const catalogueWith = (models: string, more = "") => `groups: { default: { models: ["*"] } }
upstreams:
  openai: { dialect: openai-responses, baseUrl: "https://api.openai.com/v1", requires: NOT_SET_HERE }
  google: { dialect: gemini, baseUrl: "https://generativelanguage.googleapis.com/v1beta" }
  own: { dialect: openai-chat, baseUrl: "http://vllm:8000/v1" }
${more}models:
${models}`;

test("the shipped list has a date, and the shipped catalogue agrees with it", () => {
  const { date, vendors } = readComparedPrices();
  assert.ok(!Number.isNaN(Date.parse(date)));
  for (const { source, hosts } of Object.values(vendors)) {
    assert.match(source, /^https:\/\//);
    assert.ok(hosts.length > 0);
  }
  const { code, out } = pricesOf(join(root, "catalogue.yaml"), "check");
  assert.equal(code, 0);
  assert.match(out, /different: 0/);
  assert.match(out, /no list price: sim-text, /);
  const offered = new Set(loadCatalogueFile(join(root, "catalogue.yaml"), {}).models.map(({ id }) => id));
  for (const { models } of Object.values(vendors))
    for (const name of Object.keys(models)) assert.ok(offered.has(name), `the catalogue lacks ${name}`);
});

test("prices that are cheaper, dearer or missing are shown, with exit code 1", async () => {
  const catalogue = catalogueWith(`
  - { id: mine, prices: { inputPerMillion: 2, cachedInputPerMillion: 0.125, outputPerMillion: 9.5, serviceTiers: { flex: 0.5 } }, route: [{ upstream: openai, model: gpt-5-2025-08-07 }] }
  - { id: long, prices: { inputPerMillion: 1.25, cachedInputPerMillion: 0.125, outputPerMillion: 10 }, route: [{ upstream: google, model: gemini-2.5-pro }] }
  - { id: right, prices: { inputPerMillion: 2.5, outputPerMillion: 10 }, route: [{ upstream: openai, model: gpt-4o-transcribe }] }
  - { id: local, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: own, model: gpt-5 }] }
`);
  const { code, out } = await prices(catalogue, "check", "--json");
  assert.equal(code, 1);
  const { checked } = JSON.parse(out) as { checked: CheckedPrices[] };
  assert.deepEqual(
    checked.map(({ model, state }) => [model, state]),
    [
      ["mine", "different"],
      ["long", "different"],
      ["right", "equal"],
      ["local", "unknown"],
    ],
  );
  assert.deepEqual(
    checked.flatMap(({ differences }) =>
      differences.map(({ price, aboveInputTokens, catalogue, list, difference }) =>
        [price, aboveInputTokens, catalogue, list, difference].join(" "),
      ),
    ),
    [
      "inputPerMillion 0 2 1.25 dearer",
      "outputPerMillion 0 9.5 10 cheaper",
      "perWebSearch 0 0 0.01 missing",
      "perFileSearch 0 0 0.0025 missing",
      "serviceTiers.priority 0 1 2 missing",
      "perWebSearch 0 0 0.035 missing",
      "perMapSearch 0 0 0.025 missing",
      "inputPerMillion 200000 1.25 2.5 missing",
      "cachedInputPerMillion 200000 0.125 0.25 missing",
      "outputPerMillion 200000 10 15 missing",
    ],
  );
  const text = (await prices(catalogue, "check")).out;
  assert.match(text, /^mine {2,}openai: gpt-5-2025-08-07 {2,}inputPerMillion {2,}2 {2,}1\.25 {2,}dearer$/m);
  assert.match(text, /^Unknown, because they have no list price: local$/m);
});

test("a target's own prices are compared in place of its model's", async () => {
  const { code, out } = await prices(
    catalogueWith(
      "  - { id: m, prices: { inputPerMillion: 9, outputPerMillion: 9 }, route: [{ upstream: openai, model: gpt-4o-transcribe, prices: { inputPerMillion: 2.5, outputPerMillion: 10 } }] }\n",
    ),
    "check",
    "--json",
  );
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(out).checked[0].of, "target");
});

test("what cannot be compared is refused with a reason", async () => {
  const catalogue = catalogueWith("  []\n");
  assert.equal((await prices(catalogue)).code, 2);
  assert.match((await prices(catalogue)).err, /^Usage:/);
  assert.equal((await prices(catalogue, "check", "--all")).code, 2);
  const other = await prices(`currency: EUR\n${catalogue}`, "check");
  assert.deepEqual(
    [other.code, other.err],
    [1, "sluice prices: the list prices are in USD, those of the catalogue in EUR\n"],
  );
  const missing = pricesOf(join(directory, "none.yaml"), "check");
  assert.equal(missing.code, 1);
  assert.match(missing.err, /no such file/);
  const damaged = join(directory, "list.yaml");
  await writeFile(damaged, "date: today\n");
  assert.throws(() => readComparedPrices(damaged), CatalogueFault);
});
