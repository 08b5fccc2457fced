/** Entries that operators make by control's API, in a whole gateway. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startControl, type TestControl } from "../support/control.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { within } from "../support/time.ts";

const upstreamAt = (url: string) => ({ dialect: "openai-chat", baseUrl: `${url}/v1`, circuitBreakerFailuresMax: 0 });
const modelAt = (upstream: string) => ({
  prices: { inputPerMillion: 1, outputPerMillion: 2 },
  route: [{ upstream, model: "sim-text;rate=0;first=0" }],
});

const fileText = catalogueOf([{ id: "of-the-file", model: "sim-text;rate=0;first=0" }]);

const secret = { CREDENTIALS_SECRET: "a secret that seals credentials in this test" };

async function open(
  more: Record<string, string> = {},
): Promise<{ gateway: Gateway; control: TestControl } & AsyncDisposable> {
  const gateway = await startGateway({ catalogue: fileText, environment: secret });
  const environment = { SIMULATOR_URL: gateway.simulatorUrl, ...secret, ...more };
  const control = await startControl({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    ...environment,
  });
  return {
    gateway,
    control,
    async [Symbol.asyncDispose]() {
      await control[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

const revisionOf = async ({ get }: TestControl) => (await get<{ revision: number }>("/catalogue/entries")).revision;

async function put(control: TestControl, path: string, entry: object): Promise<void> {
  const response = await control.call("PUT", `/catalogue/${path}`, entry, {
    "if-match": `"${await revisionOf(control)}"`,
  });
  assert.equal(response.status, 200, await response.text());
}

const statusOf = async (gateway: Gateway, model: string, url?: string) => {
  const body = { model, messages: [{ role: "user", content: "hello" }] };
  const response = await gateway.post(body, url === undefined ? {} : { url });
  await response.text();
  return response.status;
};

const followMs = 5_000;

test("a model that the API added answers within five seconds, and outlives a Redis that lost its data", async () => {
  await using opened = await open();
  const { gateway, control } = opened;
  assert.equal(await statusOf(gateway, "stored/one"), 404);
  await put(control, "upstreams/stored", upstreamAt(gateway.simulatorUrl));
  await put(control, "models/stored%2Fone", modelAt("stored"));
  const answers = (model: string) => async () => (await statusOf(gateway, model)) === 200;
  await within(followMs, "the new model answers", answers("stored/one"));
  assert.equal(await statusOf(gateway, "of-the-file"), 200);

  // A process that starts now has it from the first.
  const later = await gateway.addIngress();
  assert.equal(await statusOf(gateway, "stored/one", later.urls.api), 200);

  const redis = await connectRedis(gateway.redis.url, "patient");
  const { catalogue } = keyspaceOf("sluice");
  await redis.del(catalogue);
  assert.equal(await statusOf(gateway, "stored/one"), 200);
  await within(followMs, "control puts it again", async () => (await redis.exists(catalogue)) === 1);
  redis.disconnect();

  await control.call("DELETE", "/catalogue/models/stored%2Fone", undefined, {
    "if-match": `"${await revisionOf(control)}"`,
  });
  await within(followMs, "the model is gone", async () => (await statusOf(gateway, "stored/one")) === 404);
  assert.equal(await statusOf(gateway, "of-the-file"), 200);
});

test("a file with a name of the database is not in force, and both places are named", async () => {
  await using opened = await open();
  const { gateway, control } = opened;
  await put(control, "models/twice", modelAt("simulator"));
  await within(followMs, "the new model answers", async () => (await statusOf(gateway, "twice")) === 200);
  const clashing = catalogueOf([
    { id: "of-the-file", model: "sim-text;rate=0;first=0" },
    { id: "twice", model: "sim-text;rate=0;first=0" },
  ]);
  await writeFile(gateway.catalogueFile, clashing);
  type Entries = { fault: string | null };
  const fault = async () => (await control.get<Entries>("/catalogue/entries")).fault ?? "";
  await within(followMs, "control reports it", async () => (await fault()) !== "");
  assert.match(await fault(), /catalogue\.yaml:\d+:\d+: models\[1\]: model "twice" is also in revision 1; remove one/);
  assert.equal(await statusOf(gateway, "twice"), 200);
  // A further change by the API goes on top of the last good file.
  await put(control, "models/thrice", modelAt("simulator"));
  await within(followMs, "the next model answers", async () => (await statusOf(gateway, "thrice")) === 200);
  await assert.rejects(gateway.addIngress(), /is also in revision 2; remove one/);
  await writeFile(gateway.catalogueFile, fileText);
  await within(followMs, "the file is good again", async () => (await fault()) === "");
});

test("CATALOGUE_READ_ONLY refuses every change", async () => {
  await using opened = await open({ CATALOGUE_READ_ONLY: "true" });
  const { control } = opened;
  const response = await control.call("PUT", "/catalogue/groups/more", { models: ["*"] }, { "if-match": '"0"' });
  assert.equal(response.status, 403);
  assert.match(await response.text(), /CATALOGUE_READ_ONLY/);
  assert.equal((await control.get<{ isReadOnly: boolean }>("/catalogue/entries")).isReadOnly, true);
});

/** A vendor that knows some keys, and tells which one each call had. */
async function startVendor() {
  const accepted = new Set<string>();
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const key = (request.headers.authorization ?? "").replace("Bearer ", "");
    seen.push(key);
    request.resume();
    const message = { role: "assistant", content: "hello" };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const answer = {
      id: "1",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage,
    };
    const isAccepted = accepted.has(key);
    response.writeHead(isAccepted ? 200 : 401, { "content-type": "application/json" });
    response.end(JSON.stringify(isAccepted ? answer : { error: { message: "Incorrect API key provided" } }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    accepted,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("a stored credential reaches workers, and is rotated with an overlap in which no request fails", async () => {
  await using opened = await open();
  await using vendor = await startVendor();
  const { gateway, control } = opened;
  const store = async (value: string, overlapSeconds = 0) =>
    assert.equal((await control.call("PUT", "/catalogue/credentials/vendor", { value, overlapSeconds })).status, 200);
  await store("first-key-of-the-vendor");
  vendor.accepted.add("first-key-of-the-vendor");
  await put(control, "upstreams/vendor", { dialect: "openai-chat", baseUrl: vendor.url, credential: "stored:vendor" });
  await put(control, "models/m", modelAt("vendor"));
  await within(followMs, "the model answers", async () => (await statusOf(gateway, "m")) === 200);

  // The new value is not accepted yet: the one before serves.
  await store("second-key-of-the-vendor", 3_600);
  const uses = (key: string) => async () => {
    assert.equal(await statusOf(gateway, "m"), 200);
    return vendor.seen.includes(key);
  };
  await within(followMs, "workers use the new value", uses("second-key-of-the-vendor"));
  for (let count = 0; count < 4; count++) assert.equal(await statusOf(gateway, "m"), 200);

  // The vendor has ended both.
  await store("third-key-of-the-vendor");
  vendor.accepted.clear();
  vendor.accepted.add("third-key-of-the-vendor");
  await within(followMs, "the new value alone is in use", async () => (await statusOf(gateway, "m")) === 200);
  vendor.seen.length = 0;
  for (let count = 0; count < 4; count++) assert.equal(await statusOf(gateway, "m"), 200);
  assert.deepEqual([...new Set(vendor.seen)], ["third-key-of-the-vendor"]);
});
