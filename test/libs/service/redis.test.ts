import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { startFailover } from "../../support/failover.ts";
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
