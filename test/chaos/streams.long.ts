import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { readStream, type StreamRead } from "../support/stream.ts";
import { until } from "../support/time.ts";

const count = 200;
let gateway: Gateway;
let whole: StreamRead;

const ask = () => gateway.post({ model: "stream", stream: true, messages: [{ role: "user", content: "hello" }] });

before(async () => {
  gateway = await startGateway({
    processes: "all",
    workers: ["chat=128", "chat=128"],
    catalogue: catalogueOf([{ id: "stream", model: "sim-text;rate=20;first=0;tokens=120" }]),
  });
  whole = await readStream(await ask());
  assert.ok(whole.done);
});
after(() => gateway[Symbol.asyncDispose]());

/**
 * Opens 200 streams, strikes when all of them flow, and returns how they ended. Each ends whole or
 * with an in-stream error.
 */
async function endings(strike: () => Promise<void>): Promise<{ whole: number; failed: number }> {
  let flowing = 0;
  const streams = Array.from({ length: count }, async () => {
    let isFlowing = false;
    return readStream(await ask(), (chunks) => {
      if (chunks > 3 && !isFlowing) {
        isFlowing = true;
        flowing++;
      }
    });
  });
  await until("all streams flow", () => flowing === count, 20_000);
  await strike();
  const reads = await Promise.all(streams);
  for (const read of reads) {
    // A chat stream's connection breaks after its error event.
    assert.equal(read.broken, read.error !== undefined, "a stream was cut, or ended as if it were whole");
    if (read.done) assert.equal(read.content, whole.content);
    else assert.ok(read.error, "a stream ended without a terminator or an error");
    assert.equal(read.done && read.error !== undefined, false);
  }
  const complete = reads.filter(({ done }) => done).length;
  return { whole: complete, failed: count - complete };
}

test("when the ingress's Redis connections are killed, every stream completes", async () => {
  const redis = await connectRedis(gateway.redis.url, "request");
  const { failed } = await endings(async () => {
    await redis.call("CLIENT", "KILL", "TYPE", "pubsub");
    await redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  });
  redis.disconnect();
  assert.equal(failed, 0);
});

test("when Redis is killed and comes back without data, every stream completes", async () => {
  const { failed } = await endings(() => gateway.redis.restartEmpty());
  assert.equal(failed, 0);
});

test("when a worker is killed, its streams end with an error event and all others complete", async (context) => {
  const ended = await endings(async () => gateway.workers[0]?.kill());
  context.diagnostic(`${ended.whole} ended whole, ${ended.failed} with an error in the stream`);
  assert.ok(ended.failed > 0 && ended.whole > 0);
});
