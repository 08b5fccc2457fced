import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Redis as Single } from "ioredis";
import { connectRedis } from "#service/redis.ts";
import { openProxy } from "../../chaos/run/proxy.ts";
import { startFailover } from "../../support/failover.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const failover = await startFailover();
const [request, publisher] = [await connectRedis(failover.url, "request"), await connectRedis(failover.url, "request")];
const [patient, subscriber] = [
  await connectRedis(failover.url, "patient"),
  await connectRedis(failover.url, "patient"),
];
await subscriber.subscribe("news");
after(async () => {
  for (const redis of [request, publisher, patient, subscriber]) redis.disconnect();
  await failover[Symbol.asyncDispose]();
});

/** Rejects when a command fails; a pipeline itself always resolves. */
const settled = async (replies: Promise<[Error | null, unknown][] | null>) => {
  for (const [error] of (await replies) ?? []) if (error) throw error;
};

const writes: Record<string, (name: string) => Promise<unknown>> = {
  "a command with the purpose request": (name) => request.set(name, 1),
  "a command with the purpose patient": (name) => patient.set(name, 1),
  "a script": (name) => request.eval("redis.call('SET', KEYS[1], 1)", 1, name),
  "a pipeline": (name) => settled(request.pipeline().get(name).set(name, 1).get(name).exec()),
  "a transaction": (name) => settled(patient.multi().get(name).set(name, 1).exec()),
};
for (const [what, write] of Object.entries(writes))
  test(`a demoted Redis refuses ${what}, and all connections reconnect to the new primary`, async () => {
    const primary = await failover.failOver();
    await assert.rejects(write(what));
    await until("writes again", () =>
      write(what).then(
        () => true,
        () => false,
      ),
    );
    assert.equal(await primary.get(what), "1");
    await until("the new subscription", async () => (await primary.publish("news", "")) === 1);
    await until("a published message arrives", () =>
      publisher.publish("news", "").then(
        (count) => count === 1,
        () => false,
      ),
    );
    await until("the other connections are ready", () => [request, patient].every(({ status }) => status === "ready"));
  });

test("another error does not close connections", async () => {
  let closed = 0;
  for (const redis of [request, subscriber]) redis.on("close", () => closed++);
  await request.set("text", "a");
  await assert.rejects(request.incr("text"), /not an integer/);
  await request.ping();
  await subscriber.ping();
  assert.equal(closed, 0);
});

for (const subscribe of ["subscribe", "psubscribe", "ssubscribe"] as const)
  test(`a connection can be closed while it takes up its subscriptions again (${subscribe})`, async (t) => {
    await using server = await startRedis();
    await using proxy = await openProxy({ path: server.url.slice("unix://".length) });
    const redis = (await connectRedis(`redis://127.0.0.1:${proxy.port}`, "patient")) as Single;
    await redis[subscribe]("news");
    const unhandled = t.mock.fn();
    process.once("unhandledRejection", unhandled);
    const reconnected = once(redis, "ready");
    redis.disconnect(true);
    await reconnected;
    proxy.break({ directions: ["to client"], delayMs: Number.POSITIVE_INFINITY });
    const closed = once(redis, "end");
    redis.disconnect();
    proxy.reset();
    await closed;
    await setImmediate();
    process.off("unhandledRejection", unhandled);
    assert.equal(unhandled.mock.callCount(), 0);
  });

test("a connection that answers nothing is replaced, and one in use is kept", async () => {
  await using server = await startRedis();
  await using proxy = await openProxy({ path: server.url.slice("unix://".length) });
  const redis = (await connectRedis(`redis://127.0.0.1:${proxy.port}`, "patient")) as Single;
  redis.options.socketTimeout = 200;
  const reconnected = once(redis, "ready");
  redis.disconnect(true);
  await reconnected;
  let closed = 0;
  redis.on("close", () => closed++);
  for (const end = performance.now() + 600; performance.now() < end; ) await redis.ping();
  assert.equal(closed, 0);

  const heal = proxy.break({ directions: ["to client"], delayMs: Number.POSITIVE_INFINITY });
  const unanswered = redis.get("key");
  await until("the connection is replaced", () => closed === 1);
  heal();
  assert.equal(await unanswered, null);
  redis.disconnect();
});
