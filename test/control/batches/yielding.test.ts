/** Batches leave capacity to others: fewer lines run while ingresses or workers are late. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { ProcessReport } from "#service/process-reports.ts";
import { delayOf } from "../../../apps/control/batches/service.ts";
import { until } from "../../support/time.ts";
import { onPostgres } from "../databases.ts";
import { addAccount, addBatch, answerOf, contextOf, inputOf, startRunner } from "./support.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-yielding-"));
after(() => rm(directory, { recursive: true, force: true }));

onPostgres("lines give way while processes are late, and come back afterwards", async (database) => {
  const context = contextOf(database, directory);
  await addAccount(database, "a");
  await addBatch(context, { id: "batch_1", account: "a", input: inputOf(20_000) });
  let [running, delayMs] = [0, 0];
  const send = async () => {
    running++;
    await delay(20);
    running--;
    return answerOf(200, {});
  };
  const runner = startRunner(context, send, 40, async () => delayMs);
  runner.wake();
  try {
    await until("all lines run that may", () => running === 40);
    delayMs = 100;
    await until("few lines run", () => running > 0 && running <= 10, 20_000);
    delayMs = 0;
    await until("all lines run again", () => running === 40, 20_000);
  } finally {
    await runner.close();
  }
});

test("the delay is that of all ingresses or of all workers; late reports and control do not count", () => {
  const report = (role: ProcessReport["role"], eventLoopDelayMs: number, at = 9_000) =>
    ({ role, eventLoopDelayMs, at }) as ProcessReport;
  assert.equal(delayOf([], 10_000), 0);
  const ingresses = [report("ingress", 10), report("ingress", 30), report("ingress", 900, 1_000)];
  assert.equal(delayOf([...ingresses, report("control", 500)], 10_000), 20);
  assert.equal(delayOf([...ingresses, report("worker", 25)], 10_000), 25);
});
