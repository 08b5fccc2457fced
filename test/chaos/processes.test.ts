import assert from "node:assert/strict";
import { test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { readStream } from "../support/stream.ts";
import { until, within } from "../support/time.ts";
import { ask, catalogue, models, seenRunning } from "./support.ts";

test("a worker that dies before the first token is replaced, and the caller does not notice", async () => {
  await using gateway = await startGateway({ processes: "workers", catalogue });
  const answer = ask(gateway, "late");
  await seenRunning(gateway, "late");
  const second = gateway.addWorker("chat=4");
  await gateway.workers[0]?.kill();
  await second;
  assert.equal((await answer).status, 200);
  assert.equal((await gateway.seen(models.late)).length, 2);
});

test("a stream whose worker dies ends with an error event and no terminator", async () => {
  await using gateway = await startGateway({ processes: "workers", catalogue });
  let killed: Promise<void> | undefined;
  const read = await readStream(await ask(gateway, "stream", true), (chunks) => {
    // A read may bring several.
    if (chunks >= 5) killed ??= gateway.workers[0]?.kill();
  });
  assert.equal(read.error?.code, "worker_lost");
  assert.equal(read.done, false);
  assert.equal(read.broken, true);
  await killed;
});

test("without any worker a request waits as long as its queue allows, then is refused with a Retry-After", async () => {
  await using gateway = await startGateway({
    catalogue: `${catalogue}queues: { chat: { waitMs: 3000 } }\n`,
    workers: [],
  });
  const response = await ask(gateway, "fast");
  assert.equal(response.status, 503);
  assert.match(response.headers.get("retry-after") ?? "", /^\d+$/);
  await gateway.addWorker("chat=4");
  assert.equal((await ask(gateway, "fast")).status, 200);
  assert.equal((await gateway.seen(models.fast)).length, 1);
});

test("when a caller leaves, its upstream call ends within a second, streamed or not, before and after the first token", async () => {
  await using gateway = await startGateway({ catalogue });
  for (const [model, stream] of [
    ["silent", false],
    ["silent", true],
    ["endless", true],
    ["endless", false],
  ] as const) {
    const already = (await gateway.seen(models[model])).length;
    const controller = new AbortController();
    const answer = ask(gateway, model, stream, controller.signal).then((response) => response.text());
    answer.catch(() => undefined);
    await seenRunning(gateway, model, already + 1);
    controller.abort();
    await within(
      1_000,
      `${model} is closed`,
      async () => (await gateway.seen(models[model]))[already]?.outcome === "client-closed",
    );
  }
});

test("when a waiting caller leaves, its job is removed and never reaches an upstream", async () => {
  await using gateway = await startGateway({ catalogue, workers: [] });
  const controller = new AbortController();
  const answer = ask(gateway, "fast", false, controller.signal);
  answer.catch(() => undefined);
  const metrics = () => metricsOf(gateway.ingresses[0]);
  const waiting = async () =>
    Number(/sluice_queue_jobs{queue="chat",state="waiting"} (\d+)/.exec(await metrics())?.[1]);
  await until("it waits", async () => (await waiting()) === 1);
  controller.abort();
  await within(1_000, "its job is gone", async () => (await waiting()) === 0);
  await gateway.addWorker("chat=4");
  assert.equal(
    (await ask(gateway, "stream", true).then((response) => response.body?.cancel().then(() => response.status))) ?? 0,
    200,
  );
  assert.deepEqual(await gateway.seen(models.fast), []);
});
