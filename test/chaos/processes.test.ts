import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogueOf, type Gateway, startGateway, until } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { within } from "../support/time.ts";

const models = {
  fast: "sim-text;rate=0;first=0;tokens=8",
  late: "sim-text;rate=0;first=3000;tokens=8",
  stream: "sim-text;rate=10;first=0;tokens=400",
  endless: "sim-text;rate=10;first=0;tokens=4000",
  silent: "sim-text;rate=0;first=600000;tokens=8",
};
const catalogue = catalogueOf(Object.entries(models).map(([id, model]) => ({ id, model })));
const ask = (gateway: Gateway, model: string, stream = false, signal?: AbortSignal) =>
  gateway.post({ model, stream, messages: [{ role: "user", content: "hello" }] }, signal && { signal });

async function seenRunning(gateway: Gateway, model: keyof typeof models, count = 1): Promise<void> {
  await until(`${model} runs`, async () => (await gateway.seen(models[model])).length >= count, 30_000);
}

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
  assert.equal(read.broken, false);
  await killed;
});

test("a frozen worker is replaced, and sends nothing of its old answers when it wakes", async () => {
  await using gateway = await startGateway({ processes: "workers", catalogue });
  const answer = ask(gateway, "late", true);
  await seenRunning(gateway, "late");
  const frozen = gateway.workers[0];
  frozen?.freeze();
  await gateway.addWorker("chat=4");
  await seenRunning(gateway, "late", 2);
  frozen?.thaw();
  const read = await readStream(await answer);
  assert.ok(read.done);
  assert.equal(read.text.match(/"role":"assistant"/g)?.length, 1);
  await until("the first call is over", async () =>
    (await gateway.seen(models.late)).every(({ closedAt }) => closedAt !== undefined),
  );
  assert.equal((await ask(gateway, "fast")).status, 200);
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

test("when an ingress dies, the upstream calls of its callers end", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue });
  const reading = readStream(await ask(gateway, "endless", true));
  await gateway.ingresses[0]?.kill();
  const { status, error, broken } = await reading;
  assert.deepEqual({ status, error, broken }, { status: 200, error: undefined, broken: true });
  // A worker that did not hear itself meanwhile gives the ingress its time of grace anew.
  await until(
    "the call is closed",
    async () => (await gateway.seen(models.endless))[0]?.outcome === "client-closed",
    60_000,
  );
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
  const metrics = async () => (await fetch(`${gateway.ingresses[0]?.urls.operations}/metrics`)).text();
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
