import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, test } from "node:test";
import OpenAI from "openai";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { modelLine } from "./support.ts";

const head = `groups:
  default: { models: ["*"] }
  narrow: { models: ["alpha", "maker/*"] }
  empty: { models: ["nothing-*"] }
upstreams:
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
`;
const fast = "sim-text;rate=0";
const models = [
  `  - { id: alpha, retries: 0, name: Alpha, ownedBy: someone, created: 2026-01-31, contextWindow: 1000, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: simulator, model: "${fast}" }] }\n`,
  modelLine({ id: "maker/model:7b", model: fast }),
  modelLine({ id: "beta@1+x", model: fast }),
];
const catalogue = `${head}models:\n${models.join("")}`;
const gateway = await startGateway({ ingresses: 2, catalogue });
after(() => gateway[Symbol.asyncDispose]());
const [narrowKey, emptyKey] = await Promise.all([gateway.createKey("narrow"), gateway.createKey("empty")]);
const client = gateway.client();
const messages = [{ role: "user" as const, content: "hello" }];

async function idsOf(listing: OpenAI): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of await listing.models.list()) ids.push(id);
  return ids;
}

test("the list has the catalogue's models in its order and OpenAI's shape, and shows nothing of routes", async () => {
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${gateway.key}` } });
  assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
  assert.deepEqual(await response.json(), {
    object: "list",
    data: [
      {
        id: "alpha",
        object: "model",
        created: Date.UTC(2026, 0, 31) / 1_000,
        owned_by: "someone",
        context_window: 1000,
      },
      { id: "maker/model:7b", object: "model", created: 0, owned_by: "sluice" },
      { id: "beta@1+x", object: "model", created: 0, owned_by: "sluice" },
    ],
  });
  assert.deepEqual(await idsOf(client), ["alpha", "maker/model:7b", "beta@1+x"]);
});

test("a model can be looked up by its id, with any characters, encoded or bare", async () => {
  for (const id of await idsOf(client)) assert.equal((await client.models.retrieve(id)).id, id);
  const bare = await fetch(`${gateway.url}/v1/models/maker/model:7b`, { headers: { "x-api-key": gateway.key } });
  assert.equal(((await bare.json()) as { id: string }).id, "maker/model:7b");
  const completion = await client.chat.completions.create({ model: "maker/model:7b", messages });
  assert.equal(completion.model, "maker/model:7b");
});

test("HEAD works for lists and models", async () => {
  const status = async (path: string) => {
    const response = await fetch(`${gateway.url}${path}`, { method: "HEAD", headers: { "x-api-key": gateway.key } });
    assert.equal(await response.text(), "");
    return response.status;
  };
  assert.equal(await status("/v1/models"), 200);
  assert.equal(await status("/v1/models/alpha"), 200);
  assert.equal(await status("/v1/models/gamma"), 404);
});

test("a key sees only its group's models", async () => {
  const narrow = gateway.client({ key: narrowKey });
  assert.deepEqual(await idsOf(narrow), ["alpha", "maker/model:7b"]);
  assert.deepEqual(await idsOf(gateway.client({ key: emptyKey })), []);
  assert.equal((await narrow.chat.completions.create({ model: "maker/model:7b", messages })).model, "maker/model:7b");
  await assert.rejects(narrow.models.retrieve("beta@1+x"), OpenAI.NotFoundError);
  await assert.rejects(
    narrow.chat.completions.create({ model: "beta@1+x", messages, stream: true }),
    OpenAI.NotFoundError,
  );
});

test("an unknown model and one of another group get the same error except for the name, on every path", async () => {
  const bodies = new Set<string>();
  const ask = async (key: string, id: string) => {
    const headers = { authorization: `Bearer ${key}` };
    for (const response of [
      await fetch(`${gateway.url}/v1/models/${encodeURIComponent(id)}`, { headers }),
      await gateway.post({ model: id, messages }, { key }),
      await gateway.post({ model: id, messages, stream: true }, { key }),
    ]) {
      assert.equal(response.status, 404);
      bodies.add((await response.text()).replace(id, "<id>"));
    }
  };
  await ask(narrowKey, "beta@1+x");
  await ask(narrowKey, "gamma");
  await ask(gateway.key, "gamma");
  await ask(gateway.key, "__proto__");
  await ask(gateway.key, "alpha ");
  assert.equal(bodies.size, 1);
  const { error } = JSON.parse([...bodies][0] ?? "");
  assert.equal(error.code, "model_not_found");
  assert.equal(error.type, "invalid_request_error");
  assert.equal(error.param, "model");
});

/** A second, and some more for a machine that has other things to do. */
const withinMs = 8_000;

/** Writes the catalogue, and waits until every ingress shows it. */
async function change(text: string, holds: (ids: string[]) => boolean): Promise<void> {
  await writeFile(gateway.catalogueFile, text);
  for (const { urls } of gateway.ingresses)
    await until(
      "the change is seen",
      async () => holds(await idsOf(gateway.client({ url: urls.api as string }))),
      withinMs,
    );
}

test("a change of the catalogue applies at every ingress within a second: models come and go", async () => {
  await change(catalogue + modelLine({ id: "gamma", model: fast }), (ids) => ids.includes("gamma"));
  await until(
    "the worker has it too",
    async () => (await gateway.post({ model: "gamma", messages })).status === 200,
    withinMs,
  );
  await change(`${head}models:\n${models.slice(0, 2).join("")}`, (ids) => !ids.includes("gamma"));
  for (const id of ["gamma", "beta@1+x"])
    await assert.rejects(client.chat.completions.create({ model: id, messages }), OpenAI.NotFoundError);
  await change(catalogue.replace('["alpha", "maker/*"]', '["beta@*"]'), (ids) => ids.includes("beta@1+x"));
  assert.deepEqual(await idsOf(gateway.client({ key: narrowKey })), ["beta@1+x"]);
  await change(catalogue, () => true);
});

test("a new queue is served by workers with `*`, when it is added and at their start", async () => {
  const text = `${catalogue}${modelLine({ id: "apart", model: fast, queue: "new" })}queues: { new: {} }\n`;
  const queuesOf = async (urls: Record<string, string>) => {
    const { queues } = (await (await fetch(`${urls.operations}/status`)).json()) as {
      queues: { queue: string; capacity: number }[];
    };
    return queues.map(({ queue, capacity }) => `${queue}=${capacity}`);
  };
  const { urls } = await gateway.addWorker("chat=2,*=3");
  assert.deepEqual((await queuesOf(urls)).toSorted(), ["audio=3", "background=3", "chat=2", "image=3", "realtime=3"]);
  await change(text, (ids) => ids.includes("apart"));
  const ingressStatus = `${gateway.ingresses[0]?.urls.operations}/status`;
  await until("the ingress opened the queue", async () =>
    ((await (await fetch(ingressStatus)).json()) as { queues: { queue: string }[] }).queues.some(
      ({ queue }) => queue === "new",
    ),
  );
  assert.equal((await gateway.post({ model: "apart", messages })).status, 200);
  assert.deepEqual((await queuesOf(urls)).toSorted(), [
    "audio=3",
    "background=3",
    "chat=2",
    "image=3",
    "new=3",
    "realtime=3",
  ]);
  const { urls: later } = await gateway.addWorker("*=4");
  assert.deepEqual((await queuesOf(later)).toSorted(), [
    "audio=4",
    "background=4",
    "chat=4",
    "image=4",
    "new=4",
    "realtime=4",
  ]);
  await change(catalogue, (ids) => !ids.includes("apart"));
});

test("a stream continues when its model is removed from the catalogue", async () => {
  await change(catalogue + modelLine({ id: "leaving", model: "sim-text;rate=20;tokens=30" }), (ids) =>
    ids.includes("leaving"),
  );
  let text = "";
  await until("the worker has it too", async () => {
    const response = await gateway.post({ model: "leaving", messages, stream: true });
    if (response.status !== 200) return false;
    await change(catalogue, (ids) => !ids.includes("leaving"));
    text = await response.text();
    return true;
  });
  assert.ok(text.endsWith("data: [DONE]\n\n"));
});

test("an invalid catalogue changes nothing, and the next valid one applies", async () => {
  const before = await idsOf(client);
  for (const broken of [
    "models: [",
    catalogue.replace("upstream: simulator", "upstream: nowhere"),
    "",
    `${catalogue}  - { id: delta }\n`,
  ]) {
    await writeFile(gateway.catalogueFile, broken);
    const refusedAt = performance.now() + 700;
    while (performance.now() < refusedAt) {
      assert.deepEqual(await idsOf(client), before);
      assert.equal((await gateway.post({ model: "alpha", messages })).status, 200);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  assert.equal(await readFile(gateway.catalogueFile, "utf8").then((text) => text.includes("delta")), true);
  await change(catalogue + modelLine({ id: "delta", model: fast }), (ids) => ids.includes("delta"));
});
