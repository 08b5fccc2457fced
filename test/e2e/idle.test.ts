/** The Redis commands of a gateway without requests, those of scripts included. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";
import type { TestRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";

const queues = ["chat", "image", "audio", "embeddings", "realtime"];
const catalogue = catalogueOf(
  queues.map((queue) => ({ id: queue, model: "sim-text;rate=0;first=0", queue })),
  `queues:\n${queues.map((queue) => `  ${queue}: { waitingMax: 1000, waitMs: 60000 }\n`).join("")}`,
);
const capacities = queues.map((queue) => `${queue}=64`).join();

/** How long the commands are counted. */
const countedMs = 8_000;
/** Commands of a process in a second. */
const commandsMax = 15;

interface Commands {
  /** In a second. */
  sum: number;
  text: string;
}

async function commandsOf(server: TestRedis): Promise<Commands> {
  const redis = await connectRedis(server.url, "patient");
  try {
    await redis.config("RESETSTAT");
    await delay(countedMs);
    const calls = [...(await redis.info("commandstats")).matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)].map(
      ([, name, count]) => [name, (1_000 * Number(count)) / countedMs] as const,
    );
    const sum = calls.reduce((total, [, count]) => total + count, 0);
    return { sum, text: calls.map(([name, count]) => `${name} ${count.toFixed(1)}`).join(", ") };
  } finally {
    redis.disconnect();
  }
}

test("the slots of an idle worker are known at all times", async () => {
  await using gateway = await startGateway({ workers: [capacities], catalogue });
  const redis = await connectRedis(gateway.redis.url, "patient");
  try {
    const key = keyspaceOf("sluice").queueSlots("chat", 1);
    const expiries = async () => Object.values(await redis.hgetall(key)).map((text) => Number(text.split(" ")[2]));
    await until("the worker is idle", async () => (await expiries()).some((at) => at - Date.now() > 10_000));
    const startedAt = performance.now();
    while (performance.now() - startedAt < 12_000) {
      const [expiry = 0] = await expiries();
      assert.ok(expiry - Date.now() > 5_000, `it expires in ${expiry - Date.now()} ms`);
      await delay(200);
    }
  } finally {
    redis.disconnect();
  }
});

test("an idle process sends Redis few commands, however many workers there are", async (t) => {
  await using gateway = await startGateway({ workers: [capacities], catalogue });
  for (const model of queues) {
    const answer = await gateway.post({ model, messages: [{ role: "user", content: "Hello" }] });
    assert.equal(answer.status, 200, await answer.text());
  }
  // Usage records are kept for ten seconds, in case Redis fails over.
  await delay(12_000);
  const sums: number[] = [];
  const pair = [1, 1] as const;
  const many = [3, 10] as const;
  for (const [ingresses, workers] of isLong ? [pair, [1, 10] as const, many] : [many]) {
    while (gateway.workers.length < workers) await gateway.addWorker(capacities);
    while (gateway.ingresses.length < ingresses) await gateway.addIngress();
    // Slots that are new are announced and read more often.
    await delay(10_000);
    const { sum, text } = await commandsOf(gateway.redis);
    const ofOne = sum / (ingresses + workers);
    t.diagnostic(`${ingresses} ingresses, ${workers} workers: ${ofOne.toFixed(1)} commands/s per process (${text})`);
    assert.ok(ofOne <= commandsMax, `${ofOne} commands/s per process: ${text}`);
    sums.push(sum);
  }
  if (!isLong) return;
  const ofMany = extrapolated(sums, 50, 200) / 250;
  t.diagnostic(`50 ingresses, 200 workers: ${ofMany.toFixed(1)} commands/s per process, computed`);
  assert.ok(ofMany <= 20, `${ofMany} commands/s per process`);
});

/**
 * The commands of more processes, from those of 1 × 1, 1 × 10 and 3 × 10. An ingress, a worker, and
 * a pair of both send so many each.
 */
function extrapolated([one = 0, workers = 0, all = 0]: readonly number[], ingressCount: number, workerCount: number) {
  const ofWorkerAndPair = (workers - one) / 9;
  const ofIngress = one - ofWorkerAndPair;
  const ofPair = Math.max(0, (all - workers - 2 * ofIngress) / 20);
  const ofWorker = ofWorkerAndPair - ofPair;
  return ingressCount * ofIngress + workerCount * ofWorker + ingressCount * workerCount * ofPair;
}

for (const role of ["ingress", "control"])
  test(`an idle ${role} sends Redis few commands`, async (t) => {
    await using gateway = await startGateway({ workers: [], catalogue });
    const { redis, catalogueFile: SLUICE_CATALOGUE, simulatorUrl: SIMULATOR_URL } = gateway;
    if (role === "control") await Promise.all(gateway.ingresses.map((ingress) => ingress.stop()));
    await using _control =
      role === "control"
        ? await startControl({ REDIS_URL: redis.url, SLUICE_CATALOGUE, SIMULATOR_URL })
        : await gateway;
    await delay(1_000);
    const { sum, text } = await commandsOf(redis);
    t.diagnostic(`${role}: ${sum.toFixed(1)} commands/s (${text})`);
    assert.ok(sum <= commandsMax, `${sum} commands/s: ${text}`);
  });
