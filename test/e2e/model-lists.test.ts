import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import AnthropicOld from "anthropic-sdk-0";
import { GoogleGenAI as GoogleOld } from "google-genai-2";
import OpenAI from "openai";
import OpenAIOld from "openai-6";
import { startGateway } from "../support/gateway.ts";

const count = 45;
const ids = Array.from({ length: count }, (_, place) => (place === 7 ? "maker/model:free" : `model-${place}`));
const lines = ids.map(
  (id, place) =>
    `  - { id: "${id}", retries: 0, name: "Model ${place}", created: 2026-01-31, contextWindow: 1000, outputTokensMax: 100, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: simulator, model: sim-text }] }\n`,
);
const gateway = await startGateway({
  workers: [],
  catalogue: `groups: { default: { models: ["*"] } }\nupstreams: { simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" } }\nmodels:\n${lines.join("")}`,
});
after(() => gateway[Symbol.asyncDispose]());
const { key: apiKey, url } = gateway;

const gathered = async <Item>(list: AsyncIterable<Item>, idOf: (item: Item) => string | undefined) => {
  const names: (string | undefined)[] = [];
  for await (const item of list) names.push(idOf(item));
  return names;
};

for (const Client of [OpenAI, OpenAIOld])
  test(`${Client === OpenAI ? "openai 7" : "openai 6"} lists and finds models`, async () => {
    const client = new Client({ apiKey, baseURL: `${url}/v1` });
    assert.deepEqual(await gathered(await client.models.list(), ({ id }) => id), ids);
    const model = await client.models.retrieve("maker/model:free");
    assert.deepEqual(
      { ...model },
      {
        id: "maker/model:free",
        object: "model",
        created: 1_769_817_600,
        owned_by: "sluice",
        context_window: 1_000,
        max_output_tokens: 100,
      },
    );
    await assert.rejects(client.models.retrieve("nothing"), Client.NotFoundError);
  });

for (const Client of [Anthropic, AnthropicOld])
  test(`${Client === Anthropic ? "@anthropic-ai/sdk 1" : "@anthropic-ai/sdk 0"} lists models page by page, and finds them`, async () => {
    const client = new Client({ apiKey, baseURL: url });
    assert.deepEqual(await gathered(client.models.list({ limit: 10 }), ({ id }) => id), ids);
    assert.deepEqual(await gathered(client.models.list(), ({ id }) => id), ids);
    const page = await client.models.list({ limit: 2, before_id: "model-4" });
    assert.deepEqual(
      [page.data.map(({ id }) => id), page.has_more, page.first_id, page.last_id],
      [["model-2", "model-3"], true, "model-2", "model-3"],
    );
    const model = await client.models.retrieve("maker/model:free");
    assert.deepEqual(
      [model.type, model.display_name, model.created_at, model.max_input_tokens, model.max_tokens],
      ["model", "Model 7", "2026-01-31T00:00:00Z", 1_000, 100],
    );
    const { lifecycle, deprecated_at, retires_at, line, capabilities } = { ...model } as Record<string, unknown>;
    assert.deepEqual([lifecycle, deprecated_at, retires_at, line, capabilities], ["active", null, null, null, null]);
    assert.deepEqual(((await client.get("/v1/models?lifecycle[]=retired")) as { data: unknown[] }).data, []);
    await assert.rejects(client.models.retrieve("nothing"), (error: InstanceType<typeof Client.NotFoundError>) => {
      assert.ok(error instanceof Client.NotFoundError);
      assert.equal(error.type, "not_found_error");
      assert.match(error.requestID ?? "", /^req_/);
      return true;
    });
  });

for (const Client of [GoogleGenAI, GoogleOld])
  test(`${Client === GoogleGenAI ? "@google/genai 3" : "@google/genai 2"} lists models page by page, and finds them`, async () => {
    const client = new Client({ apiKey, httpOptions: { baseUrl: url } });
    assert.deepEqual(
      await gathered(await client.models.list({ config: { pageSize: 10 } }), ({ name }) => name),
      ids.map((id) => `models/${id}`),
    );
    const model = await client.models.get({ model: "maker/model:free" });
    assert.deepEqual(
      [model.name, model.displayName, model.inputTokenLimit, model.outputTokenLimit],
      ["models/maker/model:free", "Model 7", 1_000, 100],
    );
    await assert.rejects(client.models.get({ model: "nothing" }), { name: "ApiError", status: 404 });
  });
