import assert from "node:assert/strict";
import { test } from "node:test";
import { connectRedis, serversOf, usedMemoryShare } from "#service/redis.ts";
import { until } from "../../support/gateway.ts";
import { startCluster, startSentinels, type Topology } from "../../support/redis-topologies.ts";

const works = (promise: Promise<unknown>) =>
  promise.then(
    () => true,
    () => false,
  );

/** Writes and published messages work before a fail-over in order, after it, and after the death of the primary. */
async function outlivesFailOvers(topology: Topology): Promise<void> {
  const request = await connectRedis(topology.url, "request");
  const subscriber = await connectRedis(topology.url, "subscribe");
  const heard: string[] = [];
  subscriber.on("smessage", (_channel: string, message: string) => heard.push(message));
  try {
    await subscriber.ssubscribe("news");
    const heardAgain = async (message: string) => {
      await until("a write works", () => works(request.set("news", message)));
      await until("a message arrives", async () => {
        await request.spublish("news", message).catch(() => 0);
        return heard.includes(message);
      });
      assert.equal(await request.get("news"), message);
    };
    await heardAgain("at first");
    await topology.failOver("news");
    await heardAgain("after a planned fail-over");
    const primary = await topology.primaryOf("news");
    await primary.kill();
    await heardAgain("after the primary's death");
    assert.ok((await usedMemoryShare(request)) > 0);
  } finally {
    request.disconnect();
    subscriber.disconnect();
  }
}

test("Sentinels: connections follow the primary", async () => {
  await using sentinels = await startSentinels();
  await outlivesFailOvers(sentinels);
});

test("a cluster: connections follow the primaries, and commands without a key are asked of each", async () => {
  await using cluster = await startCluster();
  const redis = await connectRedis(cluster.url, "request");
  assert.equal(serversOf(redis).length, 3);
  redis.disconnect();
  await outlivesFailOvers(cluster);
});
