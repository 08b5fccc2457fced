import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { RollingLoad, rollingModels } from "./rolling-load.ts";

test("a rolling restart of every process under load loses no request", async () => {
  // The notice is for whoever asks after readiness, which takes as long as that process is held up.
  await using gateway = await startGateway({
    processes: "all",
    catalogue: catalogueOf(rollingModels),
    ingresses: 2,
    workers: ["chat=32", "chat=32"],
    environment: { DRAIN_NOTICE_MS: "3000" },
  });
  await using load = new RollingLoad(gateway, gateway.ingresses);
  await load.flow();
  for (const worker of gateway.workers.slice()) {
    await gateway.addWorker("chat=32");
    assert.equal(await worker.stop(), 0, worker.complaints());
  }
  for (const ingress of gateway.ingresses.slice()) {
    await load.add(await gateway.addIngress());
    assert.equal(await load.remove(ingress), 0, ingress.complaints());
  }
  await load.flow();
  await load[Symbol.asyncDispose]();
  assert.deepEqual(load.lost, []);
});
