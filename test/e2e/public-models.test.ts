/** The list of models with prices, with and without a key, if the catalogue has a public group. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const catalogue = `publicGroup: default
groups:
  default: { models: ["open", "drawn"] }
  dearer: { models: ["*"], priceRatio: 1.25 }
upstreams:
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - id: open
    name: Open
    description: Answers anything.
    ownedBy: someone
    created: 2026-01-31
    contextWindow: 1000
    outputTokensMax: 100
    capabilities: [text, streaming, tools, vision, json, reasoning]
    prices: { inputPerMillion: 1.25, cachedInputPerMillion: 0.0375, cacheWritePerMillion: 2, outputPerMillion: 10, perRequest: 0.001 }
    route: [{ upstream: simulator, model: sim-text }]
  - id: drawn
    capabilities: [image]
    prices: { inputPerMillion: 5, outputPerMillion: 40, images: [{ quality: low, price: 0.011 }, { price: 0.042 }] }
    route: [{ upstream: simulator, model: sim-image }]
  - id: hidden
    prices: { inputPerMillion: 1, outputPerMillion: 2 }
    route: [{ upstream: simulator, model: sim-text }]
`;
const gateway = await startGateway({ workers: [], catalogue });
after(() => gateway[Symbol.asyncDispose]());
const { url, key: apiKey } = gateway;
const dearerKey = await gateway.createKey("dearer");

interface Listed {
  id: string;
  object: string;
  created: number;
  owned_by: string;
  pricing: Record<string, string>;
}

const list = async (headers: Record<string, string> = {}) => {
  const response = await fetch(`${url}/v1/models`, { headers });
  assert.equal(response.status, 200);
  return (await response.json()) as { object: string; data: Listed[] };
};

test("without a key, the public group's models have OpenAI's and OpenRouter's fields", async () => {
  const { object, data } = await list();
  assert.equal(object, "list");
  assert.deepEqual(
    data.map(({ id }) => id),
    ["open", "drawn"],
  );
  assert.deepEqual(data[0], {
    id: "open",
    object: "model",
    created: 1_769_817_600,
    owned_by: "someone",
    context_window: 1_000,
    max_output_tokens: 100,
    name: "Open",
    description: "Answers anything.",
    context_length: 1_000,
    architecture: {
      modality: "text+image->text",
      input_modalities: ["text", "image"],
      output_modalities: ["text"],
    },
    pricing: {
      prompt: "0.00000125",
      completion: "0.00001",
      request: "0.001",
      image: "0",
      input_cache_read: "0.0000000375",
      input_cache_write: "0.000002",
    },
    top_provider: { context_length: 1_000, max_completion_tokens: 100, is_moderated: false },
    per_request_limits: null,
    supported_parameters: [
      "max_tokens",
      "stop",
      "temperature",
      "top_p",
      "tools",
      "tool_choice",
      "response_format",
      "structured_outputs",
      "reasoning",
      "include_reasoning",
      "reasoning_effort",
    ],
  });
  assert.deepEqual(data[1]?.pricing, { prompt: "0.000005", completion: "0.00004", request: "0", image: "0.042" });
  assert.doesNotMatch(JSON.stringify(data), /simulator|127\.0\.0\.1|sim-text/);
});

test("with a key, the models and the prices are those of its group", async () => {
  const { data } = await list({ authorization: `Bearer ${dearerKey}` });
  assert.deepEqual(
    data.map(({ id, pricing }) => [id, pricing.prompt]),
    [
      ["open", "0.0000015625"],
      ["drawn", "0.00000625"],
      ["hidden", "0.00000125"],
    ],
  );
  const one = await fetch(`${url}/v1/models/open`, { headers: { authorization: `Bearer ${dearerKey}` } });
  assert.deepEqual(await one.json(), data[0]);
});

test("a wrong key is refused, and so is everything else without a key", async () => {
  const wrong = await fetch(`${url}/v1/models`, { headers: { authorization: "Bearer sk-wrong" } });
  assert.equal(wrong.status, 401);
  for (const [path, init, status] of [
    ["/v1/models/open", {}, 401],
    ["/v1beta/models", {}, 403],
    ["/v1/models", { method: "POST" }, 401],
    ["/v1/models", { headers: { "anthropic-version": "2023-06-01" } }, 401],
    ["/v1/chat/completions", { method: "POST" }, 401],
  ] as const)
    assert.equal((await fetch(`${url}${path}`, init)).status, status, path);
});

test("caches may keep the public list, and it changes with the catalogue", async () => {
  const first = await fetch(`${url}/v1/models`);
  const etag = first.headers.get("etag") ?? "";
  assert.match(etag, /^"[0-9a-f]{16}"$/);
  assert.equal(first.headers.get("cache-control"), "public, max-age=60");
  assert.match(first.headers.get("vary") ?? "", /authorization/);
  assert.equal(first.headers.get("access-control-allow-origin"), "*");
  const again = await fetch(`${url}/v1/models`, { headers: { "if-none-match": `"other", W/${etag}` } });
  assert.deepEqual([again.status, await again.text()], [304, ""]);
  const head = await fetch(`${url}/v1/models`, { method: "HEAD" });
  assert.deepEqual([head.status, await head.text(), head.headers.get("etag")], [200, "", etag]);
  await writeFile(gateway.catalogueFile, catalogue.replace("outputPerMillion: 10", "outputPerMillion: 11"));
  await until("the list has the new price", async () => (await list()).data[0]?.pricing.completion === "0.000011");
  const changed = await fetch(`${url}/v1/models`, { headers: { "if-none-match": etag } });
  assert.equal(changed.status, 200);
});

test("official clients read the list", async () => {
  const ids: string[] = [];
  for await (const { id, owned_by } of await new OpenAI({ apiKey, baseURL: `${url}/v1` }).models.list())
    ids.push(`${id} ${owned_by}`);
  assert.deepEqual(ids, ["open someone", "drawn sluice"]);
  const page = await new Anthropic({ apiKey, baseURL: url }).models.list();
  assert.deepEqual(
    page.data.map(({ id, display_name }) => [id, display_name]),
    [
      ["open", "Open"],
      ["drawn", "drawn"],
    ],
  );
  assert.ok(!("pricing" in (page.data[0] ?? {})));
  const google = await new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } }).models.list();
  assert.deepEqual(
    google.page.map(({ name }) => name),
    ["models/open", "models/drawn"],
  );
});

test("the bytes that are sent without a key are bounded", async () => {
  const padding = "x".repeat(1_000);
  const models = Array.from(
    { length: 2_000 },
    (_, index) =>
      `  - { id: "open-${index}", description: "${padding}", prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: m }] }\n`,
  );
  await writeFile(gateway.catalogueFile, catalogue.replace('["open", "drawn"]', '["open*"]') + models.join(""));
  await until("the large catalogue applies", async () => {
    const { data } = (await (
      await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${apiKey}` } })
    ).json()) as { data: unknown[] };
    return data.length > 2_000;
  });
  const answers = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const response = await fetch(`${url}/v1/models`);
      return { status: response.status, wait: response.headers.get("retry-after"), body: await response.text() };
    }),
  );
  const refused = answers.filter(({ status }) => status === 429);
  assert.ok(refused.length > 0 && refused.length < 20);
  for (const { wait, body } of refused) {
    assert.ok(Number(wait) >= 1);
    assert.equal(JSON.parse(body).error.code, "rate_limit_exceeded");
  }
  const keyed = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${apiKey}` } });
  assert.equal(keyed.status, 200);
});

test("without a public group there is no list without a key, and no price in any list", async () => {
  await writeFile(gateway.catalogueFile, catalogue.replace("publicGroup: default\n", ""));
  await until("nothing is public", async () => (await fetch(`${url}/v1/models`)).status === 401);
  const { data } = await list({ authorization: `Bearer ${apiKey}` });
  assert.deepEqual(Object.keys(data[0] ?? {}), [
    "id",
    "object",
    "created",
    "owned_by",
    "context_window",
    "max_output_tokens",
  ]);
});
