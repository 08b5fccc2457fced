/** A frozen worker and a dead ingress: both take the relay's time of grace. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startGateway, until } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { ask, catalogue, models, seenRunning } from "./support.ts";

test("a worker that freezes is replaced, and says nothing of what it held when it wakes", async () => {
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
  // A worker that did not hear itself meanwhile gives the ingress its time of grace anew.
  await until(
    "the call is closed",
    async () => (await gateway.seen(models.endless))[0]?.outcome === "client-closed",
    60_000,
  );
});
