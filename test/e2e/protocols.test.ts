/** An upgrade to a release with the next protocol: processes of both share Redis. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { scrape } from "../infra/exposition.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { type Started, startIngress, startWorker } from "../support/roles.ts";
import { until } from "../support/time.ts";

const next = { oldest: 1, current: 2 };
/** The release after it reads no jobs of the first one. */
const last = { oldest: 2, current: 3 };

const mismatch = "sluice_queue_protocol_mismatch";

const environmentOf = ({ redis, catalogueFile, simulatorUrl }: Gateway) => ({
  REDIS_URL: redis.url,
  SLUICE_CATALOGUE: catalogueFile,
  SIMULATOR_URL: simulatorUrl,
  PORT: "0",
});

/** The values of a metric, of a queue if it names one. */
const valuesOf = async ({ urls }: Pick<Started, "urls">, name: string, queue?: string): Promise<number[]> =>
  ((await scrape(urls.operations as string)).series.get(name) ?? [])
    .filter(({ labels }) => queue === undefined || labels.queue === queue)
    .map(({ value }) => value);

/** The attempts that a worker has ended. */
const attemptsOf = async (worker: Pick<Started, "urls">): Promise<number> =>
  (await valuesOf(worker, "sluice_worker_generations_total")).reduce((sum, value) => sum + value, 0);

const readinessOf = async ({ urls }: Pick<Started, "urls">) => {
  const response = await fetch(`${urls.operations}/readyz`);
  return { status: response.status, text: await response.text() };
};

/** Streams so many answers at once; fails unless each is whole. */
async function streamAt(gateway: Gateway, { urls }: Pick<Started, "urls">, count: number): Promise<void> {
  const request = { model: "sim-fast", stream: true, messages: [{ role: "user", content: "Hello" }] };
  const answers = Array.from({ length: count }, async () => {
    const response = await gateway.post(request, { url: urls.api as string });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /data: \[DONE\]\n\n$/);
  });
  await Promise.all(answers);
}

test("workers of the next protocol serve ingresses of both, earlier workers those of their own alone", async () => {
  await using gateway = await startGateway({ workers: ["chat=64"] });
  const [earlierIngress, earlierWorker] = [gateway.ingresses[0]!, gateway.workers[0]!];
  await using resources = new AsyncDisposableStack();
  const worker = await startWorker(environmentOf(gateway), ["--queues", "chat=64"], { protocols: next });
  resources.defer(() => worker.close());
  const ingress = await startIngress(environmentOf(gateway), { protocols: next });
  resources.defer(() => ingress.close());

  await streamAt(gateway, ingress, 20);
  await until("they have ended", async () => (await attemptsOf(worker)) === 20);
  assert.equal(await attemptsOf(earlierWorker), 0, "it reads none of these jobs");

  await Promise.all([streamAt(gateway, earlierIngress, 20), streamAt(gateway, ingress, 20)]);
  const attempts = async () => (await attemptsOf(earlierWorker)) + (await attemptsOf(worker));
  await until("all have ended", async () => (await attempts()) === 60);

  await earlierWorker.stop();
  await Promise.all([streamAt(gateway, earlierIngress, 20), streamAt(gateway, ingress, 20)]);
  assert.equal((await readinessOf(earlierIngress)).status, 200);
  for (const role of [earlierIngress, ingress, worker])
    assert.deepEqual(await valuesOf(role, "sluice_unreadable_envelopes_total"), [0]);
});

test("an ingress whose queues have workers of another protocol alone becomes ready when its own come", async () => {
  await using gateway = await startGateway({ workers: ["chat=64"] });
  await using resources = new AsyncDisposableStack();
  const ingress = await startIngress(environmentOf(gateway), { protocols: next });
  resources.defer(() => ingress.close());
  const { status, text } = await readinessOf(ingress);
  assert.equal(status, 503);
  assert.match(text, /the workers of the queue chat have another protocol/);
  assert.deepEqual(await valuesOf(ingress, mismatch, "chat"), [1]);

  const worker = await startWorker(environmentOf(gateway), ["--queues", "chat=64"], { protocols: next });
  resources.defer(() => worker.close());
  await until("it is ready", async () => (await readinessOf(ingress)).status === 200);
  assert.deepEqual(await valuesOf(ingress, mismatch, "chat"), [0]);
  await streamAt(gateway, ingress, 5);
});

test("an ingress that serves stays ready while a queue of several has workers of another protocol alone", async () => {
  const catalogue = catalogueOf([
    { id: "sim-fast", model: "sim-text;rate=0;first=0" },
    { id: "sim-picture", model: "sim-text", queue: "image" },
  ]);
  await using gateway = await startGateway({ ingresses: 0, workers: [], catalogue });
  const chatWorker = await gateway.addWorker("chat=64");
  const imageWorker = await gateway.addWorker("image=4");
  const ingress = await gateway.addIngress();
  await until("it is ready", async () => (await readinessOf(ingress)).status === 200);
  await using resources = new AsyncDisposableStack();
  const later = await startWorker(environmentOf(gateway), ["--queues", "chat=64,image=4"], { protocols: last });
  resources.defer(() => later.close());
  const leaving = new AbortController();
  const waitFor = (model: string) => {
    const request = { model, messages: [{ role: "user", content: "Hello" }] };
    return gateway.post(request, { url: ingress.urls.api as string, signal: leaving.signal }).catch(() => undefined);
  };

  await imageWorker.stop();
  const waiting = [waitFor("sim-picture")];
  await until("it has noticed", async () => (await valuesOf(ingress, mismatch, "image")).includes(1));
  assert.equal((await readinessOf(ingress)).status, 200);
  await streamAt(gateway, ingress, 5);

  await chatWorker.stop();
  waiting.push(waitFor("sim-fast"));
  await until("it serves no queue", async () => (await readinessOf(ingress)).status === 503);
  leaving.abort();
  await Promise.all(waiting);
});
