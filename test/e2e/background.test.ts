import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { socketCatalogue } from "./socket-support.ts";
import { errorOf } from "./support.ts";

const gateway = await startGateway({
  ingresses: 2,
  workers: ["chat=16,background=16"],
  catalogue: socketCatalogue({
    sim: "sim-text;rate=0",
    "chat-sim": "sim-text;rate=0",
    paced: "sim-text;rate=50;tokens=30;first=0",
    endless: "sim-text;rate=20;tokens=5000;first=0",
    refusing: "sim-text;status=400",
    breaking: "sim-text;rate=0;error=3",
  }).replace("  narrow:", '  private: { models: ["*"], storesResponses: false }\n  narrow:'),
});
after(() => gateway[Symbol.asyncDispose]());

const client = gateway.client();
const elsewhere = gateway.client({ url: gateway.ingresses[1]?.urls.api as string });

async function settled(id: string, from = elsewhere): Promise<Response> {
  let response = await from.responses.retrieve(id);
  await until("the response is over", async () => {
    response = await from.responses.retrieve(id);
    return response.status !== "queued" && response.status !== "in_progress";
  });
  return response;
}

async function eventsOf(stream: AsyncIterable<ResponseStreamEvent>, most = Number.POSITIVE_INFINITY) {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length === most) break;
  }
  return events;
}

const numbersOf = (events: ResponseStreamEvent[]) => events.map(({ sequence_number: number }) => number);

for (const model of ["sim", "chat-sim"])
  test(`${model}: a background response is queued at once, and polled at any ingress`, async () => {
    const queued = await client.responses.create({ model, input: "Hello there.", background: true });
    assert.deepEqual([queued.status, queued.background, queued.output], ["queued", true, []]);
    const response = await settled(queued.id);
    assert.equal(response.status, "completed");
    assert.match(response.output_text, /^You said: Hello there\./);
    assert.ok((response.usage?.total_tokens ?? 0) > 0);
    const items = await client.responses.inputItems.list(queued.id);
    assert.deepEqual((items.data[0] as { content: unknown }).content, [{ type: "input_text", text: "Hello there." }]);
    const next = await client.responses.create({ model, input: "On.", previous_response_id: queued.id });
    assert.ok((next.usage?.input_tokens ?? 0) > (response.usage?.input_tokens ?? 0));
    assert.match((await errorOf(client.responses.retrieve(queued.id, { stream: true }))).message, /cannot be streamed/);
  });

for (const model of ["sim", "chat-sim"])
  test(`${model}: a background stream is read live, and again from any event at any ingress`, async () => {
    const live = await eventsOf(
      await client.responses.create({ model, input: "Hello there.", background: true, stream: true }),
    );
    assert.deepEqual(
      live.slice(0, 2).map(({ type }) => type),
      ["response.created", "response.queued"],
    );
    assert.deepEqual(
      numbersOf(live),
      live.map((_, number) => number),
    );
    const last = live.at(-1);
    assert.ok(last?.type === "response.completed");
    assert.equal(live.filter(({ type }) => type === "response.created").length, 1);
    const again = await eventsOf(await elsewhere.responses.retrieve(last.response.id, { stream: true }));
    assert.deepEqual(again, live);
    const rest = await eventsOf(
      await elsewhere.responses.retrieve(last.response.id, { stream: true, starting_after: 4 }),
    );
    assert.deepEqual(rest, live.slice(5));
    const helper = elsewhere.responses.stream({ response_id: last.response.id, starting_after: 4 });
    assert.equal((await helper.finalResponse()).id, last.response.id);
    assert.deepEqual((await client.responses.retrieve(last.response.id)).output, last.response.output);
  });

test("background streams, begun or read again, name the request", async () => {
  const body = { model: "sim", input: "Hi.", background: true, stream: true } as const;
  const { response, data } = await client.responses.create(body).withResponse();
  assert.match(String(response.headers.get("x-request-id")), /^req_/);
  const [first] = await eventsOf(data);
  assert.ok(first?.type === "response.created");
  const again = await elsewhere.responses.retrieve(first.response.id, { stream: true }).withResponse();
  assert.match(String(again.response.headers.get("x-request-id")), /^req_/);
  assert.notEqual(again.response.headers.get("x-request-id"), response.headers.get("x-request-id"));
  await eventsOf(again.data);
});

test("a caller that leaves a background stream does not stop it, and reads on where it left", async () => {
  const stream = await client.responses.create({ model: "paced", input: "Hello.", background: true, stream: true });
  const seen = await eventsOf(stream, 6);
  const [first] = seen;
  assert.ok(first?.type === "response.created");
  const rest = await eventsOf(
    await elsewhere.responses.retrieve(first.response.id, { stream: true, starting_after: 5 }),
  );
  assert.deepEqual(
    numbersOf([...seen, ...rest]),
    [...seen, ...rest].map((_, number) => number),
  );
  assert.equal(rest.at(-1)?.type, "response.completed");
  assert.equal((await gateway.seen("sim-text;rate=50;tokens=30;first=0")).length, 1);
});

test("a background response is in progress once a worker has it, streamed or not", async () => {
  const { id } = await client.responses.create({ model: "endless", input: "Go.", background: true });
  await until("it is in progress", async () => (await elsewhere.responses.retrieve(id)).status === "in_progress");
  await client.responses.cancel(id);
});

test("cancelling stops the upstream, from any ingress, and twice is once", async () => {
  for (const isStreamed of [true, false]) {
    const model = "endless";
    const before = (await gateway.seen("sim-text;rate=20;tokens=5000;first=0")).length;
    const created = isStreamed
      ? await client.responses.create({ model, input: "Go.", background: true, stream: true })
      : undefined;
    const reading = created && eventsOf(created);
    const first =
      created === undefined ? await client.responses.create({ model, input: "Go.", background: true }) : undefined;
    const isAtUpstream = async () => (await gateway.seen("sim-text;rate=20;tokens=5000;first=0")).length > before;
    await until("the upstream is called", isAtUpstream);
    const id = first?.id ?? (await newestId());
    const cancelled = await elsewhere.responses.cancel(id);
    assert.equal(cancelled.status, "cancelled");
    assert.equal((await client.responses.cancel(id)).status, "cancelled");
    assert.equal((await client.responses.retrieve(id)).status, "cancelled");
    await reading;
    await until("the upstream's connection is closed", async () =>
      (await gateway.seen("sim-text;rate=20;tokens=5000;first=0")).every(({ closedAt }) => closedAt !== undefined),
    );
  }
  const plain = await client.responses.create({ model: "sim", input: "Hi" });
  assert.match((await errorOf(client.responses.cancel(plain.id))).message, /background=true/);
});

/** The id of the response that runs. */
async function newestId(): Promise<string> {
  const redis = await connectRedis(gateway.redis.url, "patient");
  try {
    const members = await redis.zrange("{sluice:runs}", "0", "-1");
    return members[0]?.split(" ")[1] ?? assert.fail("nothing runs");
  } finally {
    redis.disconnect();
  }
}

test("a repeated request with the same Idempotency-Key gets the same response", async () => {
  const body = { model: "sim", input: "Once.", background: true } as const;
  const options = { headers: { "idempotency-key": "once" } };
  const [one, other] = [await client.responses.create(body, options), await elsewhere.responses.create(body, options)];
  assert.equal(other.id, one.id);
  assert.equal((await settled(one.id)).status, "completed");
  assert.equal((await client.responses.create(body, options)).status, "completed");
  assert.equal((await errorOf(client.responses.create({ ...body, input: "Twice." }, options))).status, 422);
  const streaming = { ...body, stream: true } as const;
  const named = { headers: { "idempotency-key": "streamed" } };
  const first = await eventsOf(await client.responses.create(streaming, named));
  assert.deepEqual(await eventsOf(await elsewhere.responses.create(streaming, named)), first);
});

test("deleting a response that runs stops it", async () => {
  const model = "sim-text;rate=20;tokens=5000;first=0";
  const before = (await gateway.seen(model)).length;
  const { id } = await client.responses.create({ model: "endless", input: "Go.", background: true });
  await until("the upstream is called", async () => (await gateway.seen(model)).length > before);
  await elsewhere.responses.delete(id);
  assert.equal((await errorOf(client.responses.retrieve(id))).status, 404);
  await until("the upstream's connection is closed", async () =>
    (await gateway.seen(model)).every(({ closedAt }) => closedAt !== undefined),
  );
});

test("a failure of the upstream ends in status failed, polled or streamed", async () => {
  for (const model of ["refusing", "breaking"]) {
    const { id } = await client.responses.create({ model, input: "Hi", background: true });
    const polled = await settled(id);
    assert.equal(polled.status, "failed", model);
    assert.ok(polled.error?.message);
    const streamed = await eventsOf(
      await client.responses.create({ model, input: "Hi", background: true, stream: true }),
    ).catch((error) => error);
    if (Array.isArray(streamed)) assert.equal(streamed.at(-1)?.type, "response.failed", model);
  }
});

for (const stream of [false, true])
  test(`a background ${stream ? "stream" : "response"} that failed leaves its Idempotency-Key free, and is still read`, async () => {
    for (const model of ["refusing", "breaking"] as const) {
      const options = { headers: { "idempotency-key": `failed ${model} ${stream}` } };
      const begin = async (input: string, from = client) => {
        const create = { model, input, background: true } as const;
        if (!stream) return (await from.responses.create(create, options)).id;
        const [first] = await eventsOf(await from.responses.create({ ...create, stream }, options), 1);
        return first?.type === "response.created" ? first.response.id : assert.fail("no response was created");
      };
      const ids = [];
      for (const [input, from] of [
        ["Hi", client],
        ["Hi", elsewhere],
        ["Bye", client],
      ] as const) {
        const id = await begin(input, from);
        ids.push(id);
        assert.equal((await settled(id)).status, "failed");
      }
      assert.equal(new Set(ids).size, 3);
      for (const id of ids) assert.equal((await elsewhere.responses.retrieve(id)).status, "failed");
    }
  });

test("a background response that was cancelled keeps its Idempotency-Key, and a deleted one leaves it free", async () => {
  const body = { model: "endless", input: "Go.", background: true } as const;
  const options = { headers: { "idempotency-key": "cancelled" } };
  const { id } = await client.responses.create(body, options);
  await elsewhere.responses.cancel(id);
  assert.deepEqual(await client.responses.create(body, options), await client.responses.retrieve(id));
  await elsewhere.responses.delete(id);
  const anew = await client.responses.create(body, options);
  assert.notEqual(anew.id, id);
  await client.responses.cancel(anew.id);
});

test("background work needs storage, and does not run on WebSockets", async () => {
  const unstored = await errorOf(
    client.responses.create({ model: "sim", input: "Hi", background: true, store: false }),
  );
  assert.equal(unstored.status, 400);
  const guarded = gateway.client({ key: await gateway.createKey("private") });
  assert.match(
    (await errorOf(guarded.responses.create({ model: "sim", input: "Hi", background: true }))).message,
    /stores/,
  );
  const unknown = await errorOf(client.responses.create({ model: "none", input: "Hi", background: true }));
  assert.equal(unknown.status, 404);
  const bad = errorOf(client.responses.retrieve("resp_x", { stream: true, starting_after: 1 }));
  assert.equal((await bad).status, 404);
});

test("nothing is left in Redis of what is over", async () => {
  const redis = await connectRedis(gateway.redis.url, "patient");
  try {
    await until("no request is left", async () => (await redis.keys("{sluice:runs}*")).length === 0);
    const metrics = await metricsOf(gateway.ingresses[0]);
    assert.match(metrics, /^sluice_detached_generations 0$/m);
    assert.match(metrics, /^sluice_stored_bytes [1-9]\d+$/m);
  } finally {
    redis.disconnect();
  }
});
