import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { readStream } from "../support/stream.ts";
import { until, within } from "../support/time.ts";

let gateway: Gateway;

before(async () => {
  gateway = await startGateway({
    workers: ["chat=4,image=2"],
    environment: { REDIS_WAIT_MS: "2000" },
    catalogue: catalogueOf([
      { id: "fast", model: "sim-text;rate=0;first=0;tokens=8" },
      { id: "stream", model: "sim-text;rate=20;first=0;tokens=120" },
      { id: "held", model: "sim-text;rate=0;first=4000;tokens=8" },
    ]),
  });
});
after(() => gateway[Symbol.asyncDispose]());

const ask = (model: string, stream = false) =>
  gateway.post({ model, stream, messages: [{ role: "user", content: "hello" }] });

/** The status, and how long it took. */
async function timed(
  model: string,
): Promise<{ status: number; ms: number; body: { error?: { type: string; code: string } } }> {
  const startedAt = performance.now();
  const response = await ask(model);
  const body = (await response.json()) as { error?: { type: string; code: string } };
  return { status: response.status, ms: performance.now() - startedAt, body };
}

/**
 * Two time limits of a command, and as much again for a machine that has other things to do: far
 * less than a request may wait on its queue.
 */
const refusedWithinMs = 6_000;

const servesAgain = () => within(1_000, "answers again", async () => (await timed("fast")).status === 200);

test("requests that arrive while Redis is down wait for it, and are served once it is back", async () => {
  await gateway.redis.kill();
  const waiting = Array.from({ length: 20 }, () => timed("fast"));
  await gateway.redis.restartEmpty();
  for (const { status } of await Promise.all(waiting)) assert.equal(status, 200);
});

test("requests that arrive while Redis stands still wait for it, also those that it took without an answer", async () => {
  gateway.redis.pause();
  const waiting = Array.from({ length: 10 }, () => timed("fast"));
  await until("they have arrived", async () => {
    const { generations } = (await (await fetch(`${gateway.ingresses[0]?.urls.operations}/status`)).json()) as {
      generations: number;
    };
    return generations === 10;
  });
  gateway.redis.resume();
  for (const { status } of await Promise.all(waiting)) assert.equal(status, 200);
});

test("while Redis is down every request is refused quickly in its dialect, and served within a second once it is back", async () => {
  assert.equal((await timed("fast")).status, 200);
  await gateway.redis.kill();
  const refused = await Promise.all(Array.from({ length: 20 }, () => timed("fast")));
  for (const { status, ms, body } of refused) {
    assert.equal(status, 503);
    assert.ok(ms < refusedWithinMs, `${ms} ms`);
    assert.equal(body.error?.type, "server_error");
  }
  assert.equal((await fetch(`${gateway.ingresses[0]?.urls.operations}/readyz`)).status, 503);
  await gateway.redis.restartEmpty();
  await servesAgain();
});

test("while Redis is frozen every request is refused quickly, and served within a second once it continues", async () => {
  gateway.redis.pause();
  const first = await Promise.all(Array.from({ length: 10 }, () => timed("fast")));
  const later = await timed("fast");
  gateway.redis.resume();
  for (const { status, ms } of [...first, later]) {
    assert.equal(status, 503);
    assert.ok(ms < refusedWithinMs, `${ms} ms`);
  }
  await servesAgain();
});

test("a request that a full Redis refuses fails alone: the ingress stays ready, and serves as soon as there is memory", async () => {
  const redis = await connectRedis(gateway.redis.url, "patient");
  const readyz = async () => (await fetch(`${gateway.ingresses[0]?.urls.operations}/readyz`)).status;
  try {
    await redis.config("SET", "maxmemory", "1kb");
    for (const { status, ms } of await Promise.all(Array.from({ length: 20 }, () => timed("fast")))) {
      assert.equal(status, 503);
      assert.ok(ms < refusedWithinMs, `${ms} ms`);
    }
    assert.equal(await readyz(), 200);
    await redis.config("SET", "maxmemory", "0");
    assert.equal((await timed("fast")).status, 200);
    // Bodies under keys of their own are refused now, and nothing else is.
    await redis.call("ACL", "SETUSER", "default", "resetkeys", "~{sluice*", "~sluice:[^b]*");
    const large = "x".repeat(1 << 20);
    const [refused, served] = await Promise.all([
      gateway.post({ model: "fast", messages: [{ role: "user", content: large }] }),
      gateway.post({ model: "held", messages: [{ role: "user", content: "hello" }] }),
    ]);
    assert.deepEqual(
      [refused.status, served.status, (await timed("fast")).status, await readyz()],
      [503, 200, 200, 200],
    );
  } finally {
    await redis.config("SET", "maxmemory", "0");
    await redis.call("ACL", "SETUSER", "default", "allkeys");
    redis.disconnect();
  }
});

test("a stream survives a Redis that dies and comes back without data: every chunk comes once, in order", async () => {
  const whole = await readStream(await ask("stream", true));
  assert.ok(whole.done);
  let restarted: Promise<void> | undefined;
  const read = await readStream(await ask("stream", true), (chunks) => {
    if (chunks > 10) restarted ??= gateway.redis.restartEmpty();
  });
  await restarted;
  assert.equal(read.error, undefined);
  assert.ok(read.done);
  assert.equal(read.content, whole.content);
});

test("queued requests are answered after Redis came back without data", async () => {
  const before = (await gateway.seen("sim-text;rate=0;first=4000;tokens=8")).length;
  const answers = Array.from({ length: 10 }, () => ask("held"));
  await until(
    "four run",
    async () => (await gateway.seen("sim-text;rate=0;first=4000;tokens=8")).length === before + 4,
  );
  await until("the others are held back, or on the queue", async () => {
    const { queues } = (await (await fetch(`${gateway.ingresses[0]?.urls.operations}/status`)).json()) as {
      queues: Record<string, string | number>[];
    };
    const chat = queues.find(({ queue }) => queue === "chat");
    const metrics = await metricsOf(gateway.ingresses[0]);
    const onQueue = Number(/sluice_queue_jobs\{queue="chat",state="waiting"\} (\d+)/.exec(metrics)?.[1]);
    return chat?.running === 4 && chat.waiting === 6 && Number(chat.admissionQueueSize) + onQueue === 6;
  });
  await gateway.redis.restartEmpty();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  assert.deepEqual(statuses, Array(10).fill(200));
});
