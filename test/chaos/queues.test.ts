import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";

const slow = "sim-text;rate=0;first=60000;tokens=8";
const big = "sim-text;rate=0;first=0;tokens=4000;size=4000";

const medianOf = (values: number[]) => values.toSorted((left, right) => left - right)[values.length >> 1] as number;

test("a full image queue does not slow the chat queue", async (context) => {
  await using gateway = await startGateway({
    workers: ["chat=16,image=4"],
    catalogue: catalogueOf([
      { id: "chat", model: "sim-text;rate=0;first=0;tokens=8" },
      { id: "image", model: slow, queue: "image" },
    ]),
  });
  const chat = async () => {
    const startedAt = performance.now();
    const response = await gateway.post({ model: "chat", messages: [{ role: "user", content: "hello" }] });
    assert.equal(response.status, 200);
    await response.text();
    return performance.now() - startedAt;
  };
  const series = async () => {
    const times: number[] = [];
    for (let count = 0; count < 60; count++) times.push(await chat());
    return medianOf(times);
  };
  await series();
  const alone = await series();
  const controller = new AbortController();
  const images = Array.from({ length: 200 }, () =>
    gateway
      .post({ model: "image", messages: [{ role: "user", content: "draw" }] }, { signal: controller.signal })
      .catch(() => undefined),
  );
  const metrics = () => metricsOf(gateway.ingresses[0]);
  await until("the image queue is full", async () =>
    /sluice_generations{queue="image",state="waiting"} 196/.test(await metrics()),
  );
  const beside = await series();
  assert.match(await metrics(), /sluice_generations{queue="image",state="waiting"} 196/);
  controller.abort();
  await Promise.all(images);
  context.diagnostic(
    `a chat completion took ${alone.toFixed(1)} ms alone and ${beside.toFixed(1)} ms beside a full image queue (medians of 60)`,
  );
  // Other work on this machine may begin between the two; what waited for a place, a heartbeat or a
  // probe would take longer than that.
  assert.ok(beside < 3 * alone + 200, `${alone} ms alone, ${beside} ms beside`);
});

test("a caller that does not read stops its own upstream and no other", async () => {
  await using gateway = await startGateway({
    catalogue: catalogueOf([
      { id: "big", model: big },
      { id: "chat", model: "sim-text;rate=0;first=0;tokens=8" },
    ]),
  });
  const ask = (model: string) => gateway.post({ model, stream: true, messages: [{ role: "user", content: "hello" }] });
  const unread = await ask("big");
  assert.equal(unread.status, 200);
  const sent = async () => (await gateway.seen(big))[0]?.chunksSent ?? 0;
  let before = -1;
  await until("it stands still", async () => {
    const now = await sent();
    const still = now === before;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 300));
    return still && now > 0;
  });
  assert.ok(before < 4_000, `${before} chunks of 4 kB were taken for a caller that reads none`);
  const others = await Promise.all(Array.from({ length: 20 }, async () => readStream(await ask("chat"))));
  for (const { done } of others) assert.ok(done);
  const read = await readStream(unread);
  assert.ok(read.done);
  assert.equal(read.error, undefined);
});
