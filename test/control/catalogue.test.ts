/** The catalogue as control's API shows it: by group, without routes, prepared for each version. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { startControl } from "../support/control.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";

const text = `publicGroup: default
addresses:
  baseUrl: https://gateway.example
  alternatives: { cdn: "https://cdn.gateway.example", multi-carrier: "https://lines.gateway.example" }
groups:
  default: { models: ["open*"] }
  partners: { models: ["*"], priceRatio: 0.85 }
upstreams:
  secret-upstream: { dialect: openai-chat, baseUrl: "http://10.1.2.3:8000/v1", credential: SECRET_NAME }
models:
  - id: open-text
    name: Open text
    created: 2026-01-31
    contextWindow: 1000
    capabilities: [text, streaming]
    prices:
      inputPerMillion: 1.25
      outputPerMillion: 10
      perRequest: 0.001
      tiers: [{ aboveInputTokens: 200000, inputPerMillion: 2.5 }]
      serviceTiers: { flex: 0.5 }
    route: [{ upstream: secret-upstream, model: their-name, prices: { inputPerMillion: 0.77, outputPerMillion: 0.77 } }]
  - id: pictures
    capabilities: [image]
    prices: { inputPerMillion: 5, outputPerMillion: 40, images: [{ size: 1024x1024, quality: low, price: 0.011 }] }
    route: [{ upstream: secret-upstream, model: their-name }]
`;
const directory = await mkdtemp(join(tmpdir(), "sluice-catalogue-"));
const file = join(directory, "catalogue.yaml");
await writeFile(file, text);
const redis = await startRedis();
const control = await startControl({ REDIS_URL: redis.url, SLUICE_CATALOGUE: file });
after(async () => {
  await control[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

interface Catalogue {
  version: string;
  currency: string;
  baseUrl: string | null;
  alternatives: Record<string, string>;
  publicGroup: string | null;
  groups: { name: string; priceRatio: number; models: string[] }[];
  models: { id: string; created: string | null; prices: { group: string }[] }[];
}

const url = `${control.url}/api/v1/catalogue`;

test("anyone reads the public group, and nothing of other groups, routes and upstreams", async () => {
  const response = await fetch(url);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("cache-control"), "public, max-age=60");
  const body = await response.text();
  const catalogue = JSON.parse(body) as Catalogue;
  assert.match(catalogue.version, /^[0-9a-f]{16}$/);
  assert.deepEqual(
    { ...catalogue, version: "", models: [] },
    {
      version: "",
      currency: "USD",
      baseUrl: "https://gateway.example",
      alternatives: { cdn: "https://cdn.gateway.example", "multi-carrier": "https://lines.gateway.example" },
      publicGroup: "default",
      groups: [{ name: "default", priceRatio: 1, models: ["open-text"] }],
      models: [],
    },
  );
  assert.deepEqual(catalogue.models, [
    {
      id: "open-text",
      name: "Open text",
      description: null,
      ownedBy: "sluice",
      created: "2026-01-31T00:00:00.000Z",
      contextWindow: 1000,
      outputTokensMax: null,
      capabilities: ["text", "streaming"],
      recommendedDialect: "openai-chat",
      prices: [
        {
          group: "default",
          prices: { inputPerMillion: "1.25", outputPerMillion: "10", perRequest: "0.001" },
          images: [],
          tiers: [{ aboveInputTokens: 200000, prices: { inputPerMillion: "2.5" } }],
          serviceTiers: { flex: 0.5 },
        },
      ],
    },
  ]);
  assert.doesNotMatch(body, /partners|secret|SECRET|10\.1\.2\.3|their-name|0\.77|pictures/);
});

test("who is signed in reads every group, with its prices", async () => {
  const response = await control.call("GET", "/catalogue");
  assert.equal(response.headers.get("cache-control"), "private, no-cache");
  const body = await response.text();
  const { groups, models } = JSON.parse(body) as Catalogue;
  assert.deepEqual(
    groups.map(({ name, priceRatio }) => [name, priceRatio]),
    [
      ["default", 1],
      ["partners", 0.85],
    ],
  );
  assert.equal(models[1]?.created, null);
  assert.deepEqual(models[1]?.prices, [
    {
      group: "partners",
      prices: { inputPerMillion: "4.25", outputPerMillion: "34" },
      images: [{ size: "1024x1024", quality: "low", price: "0.00935" }],
      tiers: [],
      serviceTiers: {},
    },
  ]);
  assert.doesNotMatch(body, /secret|SECRET|10\.1\.2\.3|their-name|0\.77/);
});

test("a token reads every group only with the scope for it", async () => {
  const read = async (scopes: string[]) => {
    const { token } = (await (await control.call("POST", "/tokens", { name: "ci", scopes })).json()) as {
      token: string;
    };
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    return ((await response.json()) as Catalogue).groups.map(({ name }) => name);
  };
  for (const scopes of [["listKeys"], ["listKeys", "createKey"], ["list*"]])
    assert.deepEqual(await read(scopes), ["default"]);
  for (const scopes of [["readCatalogue"], ["read*"], ["*"]])
    assert.deepEqual(await read(scopes), ["default", "partners"]);
});

test("a caller who has the answer gets 304, until the catalogue changes; then nothing is public any more", async () => {
  const etag = (await fetch(url)).headers.get("etag") ?? "";
  const same = await fetch(url, { headers: { "if-none-match": etag } });
  assert.deepEqual([same.status, await same.text()], [304, ""]);
  const signedIn = await control.call("GET", "/catalogue", undefined, { "if-none-match": etag });
  assert.equal(signedIn.status, 200);
  await writeFile(file, text.replace("publicGroup: default\n", "").replace("1.25", "1.5"));
  await until("the change applies", async () => (await fetch(url)).status === 401);
  const { models } = await control.get<{ models: { prices: { prices: Record<string, string> }[] }[] }>("/catalogue");
  assert.equal(models[0]?.prices[1]?.prices.inputPerMillion, "1.275");
});
