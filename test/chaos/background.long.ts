import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
import { modelLine } from "../e2e/support.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

/** The lease of a lost ingress, and some time for the generation itself. */
const takenOverMs = 60_000;

const slow = "sim-text;rate=0;first=6000";
const paced = "sim-text;rate=20;tokens=600;first=0";
const gateways: Gateway[] = [];
after(() => Promise.all(gateways.map((gateway) => gateway[Symbol.asyncDispose]())));

async function start(): Promise<Gateway> {
  const gateway = await startGateway({
    processes: "all",
    ingresses: 2,
    workers: ["background=16", "background=16"],
    catalogue: `groups:\n  default: { models: ["*"] }\nupstreams:\n  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\nmodels:\n${modelLine({ id: "slow", model: slow })}${modelLine({ id: "paced", model: paced })}`,
  });
  gateways.push(gateway);
  return gateway;
}

async function settled(gateway: Gateway, id: string): Promise<Response> {
  const client = gateway.client({ url: gateway.ingresses[1]?.urls.api as string });
  let response: Response | undefined;
  await until(
    "the response is over",
    async () => {
      response = await client.responses.retrieve(id).catch(() => undefined);
      return response !== undefined && response.status !== "queued" && response.status !== "in_progress";
    },
    takenOverMs,
  );
  return response as Response;
}

const called = async (gateway: Gateway, model: string) => (await gateway.seen(model)).length;

test("background work of a killed ingress is dispatched again by another one", async () => {
  const gateway = await start();
  const { id } = await gateway.client().responses.create({ model: "slow", input: "Hi.", background: true });
  await until("the upstream is called", async () => (await called(gateway, slow)) === 1);
  await gateway.ingresses[0]?.kill();
  const response = await settled(gateway, id);
  assert.equal(response.status, "completed");
  assert.match(response.output_text, /^You said: Hi\./);
});

test("background work with content fails when its ingress is killed, and its stream ends in order", async () => {
  const gateway = await start();
  const stream = await gateway
    .client()
    .responses.create({ model: "paced", input: "Hi.", background: true, stream: true });
  const events: ResponseStreamEvent[] = [];
  const reading = (async () => {
    for await (const event of stream) events.push(event);
  })().catch(() => undefined);
  await until("content has come", async () => events.length > 8);
  await gateway.ingresses[0]?.kill();
  await reading;
  const [first] = events;
  assert.ok(first?.type === "response.created");
  const response = await settled(gateway, first.response.id);
  assert.equal(response.status, "failed");
  assert.ok(response.error?.message);
  const again: ResponseStreamEvent[] = [];
  const elsewhere = gateway.client({ url: gateway.ingresses[1]?.urls.api as string });
  for await (const event of await elsewhere.responses.retrieve(first.response.id, { stream: true })) again.push(event);
  assert.deepEqual(
    again.map(({ sequence_number: number }) => number),
    again.map((_, number) => number),
  );
  assert.equal(again.at(-1)?.type, "response.failed");
  assert.deepEqual(again.slice(0, 8), events.slice(0, 8));
});

test("background work survives its worker", async () => {
  const gateway = await start();
  const { id } = await gateway.client().responses.create({ model: "slow", input: "Hi.", background: true });
  await until("the upstream is called", async () => (await called(gateway, slow)) === 1);
  await Promise.all(gateway.workers.map((worker) => worker.kill()));
  await gateway.addWorker("background=16", {}, true);
  assert.equal((await settled(gateway, id)).status, "completed");
  assert.equal(await called(gateway, slow), 2);
});

test("background work goes on at once when its ingress stops in order", async () => {
  const gateway = await startGateway({
    processes: "all",
    ingresses: 2,
    workers: ["background=16"],
    environment: { DRAIN_MS: "1000", DRAIN_NOTICE_MS: "0" },
    catalogue: `groups:\n  default: { models: ["*"] }\nupstreams:\n  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\nmodels:\n${modelLine({ id: "slow", model: slow })}`,
  });
  gateways.push(gateway);
  const { id } = await gateway.client().responses.create({ model: "slow", input: "Hi.", background: true });
  await until("the upstream is called", async () => (await called(gateway, slow)) === 1);
  const stoppedAt = performance.now();
  await gateway.ingresses[0]?.stop();
  assert.equal((await settled(gateway, id)).status, "completed");
  // The drain, the generation itself, and no lease to be waited for.
  assert.ok(performance.now() - stoppedAt < 14_000);
});

test("background streams survive a Redis that does not answer for a while, and no event is lost", async () => {
  const gateway = await start();
  const client = gateway.client();
  const stream = await client.responses.create({ model: "paced", input: "Hi.", background: true, stream: true });
  const events: ResponseStreamEvent[] = [];
  const reading = (async () => {
    for await (const event of stream) events.push(event);
  })();
  await until("content has come", async () => events.length > 8);
  gateway.redis.pause();
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  gateway.redis.resume();
  await reading;
  assert.equal(events.at(-1)?.type, "response.completed");
  const [first] = events;
  assert.ok(first?.type === "response.created");
  const again: ResponseStreamEvent[] = [];
  for await (const event of await client.responses.retrieve(first.response.id, { stream: true })) again.push(event);
  assert.deepEqual(again, events);
  assert.equal((await settled(gateway, first.response.id)).status, "completed");
});
