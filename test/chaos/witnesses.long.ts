/** Both witnesses of a generation die, on other topologies of Redis; and one is frozen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startCluster, startSentinels } from "../support/redis-topologies.ts";
import { until } from "../support/time.ts";
import { assertWitnessed, missingOf, orders, recordsIn, runOn, startWitnesses } from "./witnesses.ts";

for (const [name, start] of Object.entries({ Sentinels: startSentinels, "a cluster": startCluster }))
  for (const order of orders)
    test(`on ${name}: ${order.join(", and soon the ")} killed: each answer and all that ran has a record`, async () => {
      await using topology = await start();
      await assertWitnessed(order, topology.url);
    });

test("a frozen ingress: its worker writes the records and dies; when it wakes, its own records come beside them, for the same generations", async () => {
  await using gateway = await startWitnesses();
  const { url } = gateway.redis;
  const { answers } = await runOn(gateway);
  gateway.ingresses[0]?.freeze();
  await until("the worker has written all records", async () => (await missingOf(url, answers)).length === 0, 20_000);
  await gateway.workers[0]?.kill();
  gateway.ingresses[0]?.thaw();
  const ownRecordsOf = async () => {
    const records = await recordsIn(url);
    return new Set(records.filter(({ isOwner }) => isOwner).map(({ requestId }) => requestId));
  };
  await until("the ingress has written its own", async () => {
    const own = await ownRecordsOf();
    return answers.every((id) => own.has(id));
  });
  const records = (await recordsIn(url)).filter(({ requestId }) => answers.includes(requestId));
  // The ledger's key. It keeps the record of the ingress (test/control/ledger.test.ts).
  const generations = new Set(records.map(({ generationId, receivedAt }) => `${generationId} ${receivedAt}`));
  assert.equal(generations.size, answers.length);
});
