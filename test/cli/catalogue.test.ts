import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { catalogueCommand } from "../../apps/cli/catalogue.ts";
import { pricesCommand } from "../../apps/cli/prices.ts";

const directory = mkdtempSync(join(tmpdir(), "catalogue-"));
after(() => rmSync(directory, { recursive: true }));

function check(text: string, environment = {}, args = ["check", "c.yaml"]) {
  writeFileSync(join(directory, "c.yaml"), text);
  const written = { out: "", err: "" };
  const code = catalogueCommand(args, environment, directory, {
    out: (more) => {
      written.out += more;
    },
    err: (more) => {
      written.err += more.replaceAll(`${directory}/`, "");
    },
  });
  return { code, ...written };
}

const price = "{ inputPerMillion: 1, outputPerMillion: 1 }";

test("every mistake has a line: in the shape of some entries and in the meaning of others", () => {
  const { code, out, err } = check(`curency: USD
groups:
  default: { models: ["*"], weight: none }
  other: { models: [nothing] }
upstreams:
  openai: { dialect: openai-chat, baseUrl: "https://\${WHERE}/v1/" }
  bad: { dialect: what, baseUrl: "x" }
  worse: { dialect: openai-chat, baseUrl: "x" }
models:
  - { id: a, prices: { inputPerMillion: 1 }, route: [{ upstream: openai, model: a }] }
  - { id: b, prices: ${price}, route: [{ upstream: opnai, model: a }] }
  - { id: c, prices: ${price}, fallbacks: [a, zz], route: [{ upstream: bad, model: a }] }
`);
  assert.deepEqual([code, out], [1, ""]);
  assert.deepEqual(
    err.split("\n").map((line) => line.split(": ", 2).join(": ")),
    [
      "c.yaml:1:1: curency",
      "c.yaml:3:37: groups.default.weight",
      "c.yaml:4:21: groups.other.models[0]",
      "c.yaml:6:44: upstreams.openai.baseUrl",
      "c.yaml:7:19: upstreams.bad.dialect",
      "c.yaml:7:34: upstreams.bad.baseUrl",
      "c.yaml:8:43: upstreams.worse.baseUrl",
      "c.yaml:10:22: models[0].prices.outputPerMillion",
      "c.yaml:11:87: models[1].route[0].upstream",
      "c.yaml:12:82: models[2].fallbacks[1]",
      "",
    ],
  );
});

test("a faulty setting of an entry hides no mistake of its other settings, nor of other entries", () => {
  const { err } =
    check(`groups: { default: { models: ["*"], keyLimits: { budgetPerDay: 9, budgetPerMonth: 1 }, weight: -1 } }
queues: { own: { waitMs: none } }
upstreams: { openai: { dialect: openai-chat, baseUrl: "https://host/", timeouts: 5 } }
models:
  - { id: "a*b", prices: ${price}, queue: non, fallbacks: [zz, 5], route: [{ upstream: opnai, model: a }] }
  - { id: "*c", contextWindow: 1, outputTokensMax: 2, prices: ${price}, route: [{ upstream: openai, model: "*a" }] }
  - { id: d, prices: ${price}, route: [{ upstream: openai }], created: never }
  - { id: d, prices: ${price}, route: [{ upstream: openai, model: d }], retries: many }
  - none
`);
  assert.deepEqual(
    err.split("\n").map((line) => line.split(": ")[1]),
    [
      "groups.default.keyLimits.budgetPerDay",
      "groups.default.weight",
      "queues.own.waitMs",
      "upstreams.openai.baseUrl",
      "upstreams.openai.timeouts",
      "models[0].id",
      "models[0].queue",
      "models[0].fallbacks[1]",
      "models[0].route[0].upstream",
      "models[1].id",
      "models[1].outputTokensMax",
      "models[1].route[0].model",
      "models[2].route[0].model",
      "models[2].created",
      "models[3].id",
      "models[3].retries",
      "models[4]",
      undefined,
    ],
  );
});

test("mistakes of YAML, a whole part of the wrong shape, and files that cannot be read are named", () => {
  for (const [text, lines] of [
    ['a: [\nb: "\n', ["c.yaml:2:1: ", "c.yaml:3:1: "]],
    ["groups: []\nupstreams: {}\nmodels: []\n", ["c.yaml:1:9: groups: must be a mapping, not a list"]],
    ["", ["c.yaml:1:1: the catalogue is empty"]],
    ["[]", ["c.yaml:1:1: must be a mapping, not a list"]],
  ] as const) {
    const { code, err } = check(text);
    assert.equal(code, 1);
    const written = err.split("\n");
    assert.equal(written.length, lines.length + 1, err);
    for (const [place, line] of lines.entries()) assert.ok(written[place]?.startsWith(line), err);
  }
  assert.deepEqual(check("", {}, ["check", "none.yaml"]), { code: 1, out: "", err: "none.yaml: no such file\n" });
});

test("no variable has to be set; the summary says which ones are needed, and never their values", () => {
  const text = `groups: { default: { models: ["*"] } }
upstreams:
  own: { dialect: openai-chat, baseUrl: "http://\${OWN_HOST}:\${OWN_PORT:-8000}/v1", credential: OWN_KEY }
  azure: { dialect: openai-chat, baseUrl: "\${AZURE_URL}/openai/v1", requires: AZURE_KEY, credential: AZURE_KEY, credentials: [AZURE_KEY_2] }
models:
  - { id: m, prices: ${price}, route: [{ upstream: own, model: m }] }
`;
  const { code, out, err } = check(text, { OWN_KEY: "very-secret", AZURE_KEY_FILE: "/nowhere" });
  assert.deepEqual([code, err], [0, ""]);
  assert.ok(!out.includes("very-secret"));
  const rows = out.split("\n").map((line) => line.split(/ {2,}/));
  assert.deepEqual(rows.slice(2, 9), [
    ["VARIABLE", "UPSTREAM", "HERE", "WITHOUT IT"],
    ["OWN_KEY", "own", "set", "it is called without this credential"],
    ["OWN_HOST", "own", "not set", "the catalogue is refused"],
    ["OWN_PORT", "own", "not set", "its default is 8000"],
    ["AZURE_KEY", "azure", "set", "the upstream is not offered"],
    ["AZURE_KEY_2", "azure", "not set", "it is called without this credential"],
    ["AZURE_URL", "azure", "not set", "the catalogue is refused"],
  ]);
});

test("help is the usage on standard output, also that of the prices", () => {
  for (const option of ["--help", "-h"]) {
    const { code, out, err } = check("", {}, ["check", option]);
    assert.deepEqual([code, out.startsWith("Usage:"), err], [0, true, ""]);
    const written: string[] = [];
    const output = { out: (text: string) => void written.push(text), err: assert.fail };
    assert.equal(pricesCommand([option], {}, output), 0);
    assert.match(written.join(""), /^Usage:/);
  }
});

test("anything else shows the usage", () => {
  for (const args of [[], ["chek"], ["check", "a", "b"]]) {
    const { code, err } = check("", {}, args);
    assert.equal(code, 2);
    assert.match(err, /^Usage:/);
  }
});

test("the command needs neither a gateway nor an environment", async () => {
  const file = join(directory, "c.yaml");
  writeFileSync(file, "models: 1\n");
  const main = join(import.meta.dirname, "../../apps/cli/main.ts");
  const { promise, resolve } = Promise.withResolvers<[unknown, string]>();
  execFile(process.execPath, [main, "catalogue", "check", "c.yaml"], { cwd: directory, env: {} }, (error, _, stderr) =>
    resolve([error?.code, stderr]),
  );
  const [code, stderr] = await promise;
  assert.equal(code, 1);
  assert.match(stderr, /c\.yaml:1:9: models: must be a list, not 1\n/);
});
