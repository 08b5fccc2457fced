/** A frozen worker and a dead ingress: both tests wait for the relay's grace period. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";
import { ask, catalogue, models, seenRunning } from "./support.ts";

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

test("when an ingress dies, the upstream calls of its callers end", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue });
  const reading = readStream(await ask(gateway, "endless", true));
  await gateway.ingresses[0]?.kill();
  const { status, error, broken } = await reading;
  assert.deepEqual({ status, error, broken }, { status: 200, error: undefined, broken: true });
  // A worker that missed its own heartbeat meanwhile starts the grace period again.
  await until(
    "the call is closed",
    async () => (await gateway.seen(models.endless))[0]?.outcome === "client-closed",
    60_000,
  );
});
