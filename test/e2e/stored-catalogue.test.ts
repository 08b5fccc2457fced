/** Entries that operators make by control's API, in a whole gateway. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
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

async function open(
  more: Record<string, string> = {},
): Promise<{ gateway: Gateway; control: TestControl } & AsyncDisposable> {
  const gateway = await startGateway({ catalogue: fileText });
  const environment = { SIMULATOR_URL: gateway.simulatorUrl, ...more };
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
