/** How the running generations of a queue spread over its workers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { scrape } from "../infra/exposition.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";
import { until } from "../support/time.ts";

const catalogue = catalogueOf([{ id: "slow", model: "sim-text;rate=1;first=0;tokens=1000" }]);
const workersCount = 4;

/** The running generations of each worker, ascending. */
const runningOf = async ({ workers }: Gateway): Promise<number[]> => {
  const counts = workers.map(async ({ urls }) => {
    const { series } = await scrape(urls.operations as string);
    return series.get("sluice_worker_generations")?.[0]?.value ?? 0;
  });
  return (await Promise.all(counts)).sort((a, b) => a - b);
};

const startFor = (environment: Record<string, string> = {}) =>
  startGateway({ catalogue, workers: Array(workersCount).fill("chat=512"), environment });

/** Answers that nobody reads and nobody holds are collected, and their connections closed. */
const openAnswers: Promise<Response | undefined>[] = [];

/** Begins so many streams, each a while after the one before. */
async function begin(
  gateway: Gateway,
  { count, gapMs, signal }: { count: number; gapMs: number; signal: AbortSignal },
) {
  for (let begun = 0; begun < count; begun++) {
    const request = { model: "slow", stream: true, messages: [{ role: "user", content: "Hello" }] };
    openAnswers.push(gateway.post(request, { signal }).catch(() => undefined));
    if (gapMs > 0) await new Promise((resolve) => setTimeout(resolve, gapMs));
  }
}

const rounds = 3;
for (const { name, gapMs } of [
  { name: "at once", gapMs: 0 },
  { name: "one after the other", gapMs: 10 },
])
  test(`100 streams that begin ${name} spread over four workers: on average the busiest has at most 1.5 times its share`, async () => {
    const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
    const busiest: number[] = [];
    for (let round = 0; round < rounds; round++) {
      await using gateway = await startFor();
      const leaving = new AbortController();
      await begin(gateway, { count: 100, gapMs, signal: leaving.signal });
      await until("all run", async () => sum(await runningOf(gateway)) === 100);
      busiest.push((await runningOf(gateway)).at(-1) ?? 0);
      leaving.abort();
    }
    assert.ok(sum(busiest) / rounds <= (1.5 * 100) / workersCount, String(busiest));
  });

test("a worker that alone serves a queue takes all of its streams", async () => {
  await using gateway = await startGateway({ catalogue, workers: ["chat=512"] });
  const leaving = new AbortController();
  await begin(gateway, { count: 100, gapMs: 0, signal: leaving.signal });
  await until("all run", async () => (await runningOf(gateway))[0] === 100);
  leaving.abort();
});

// A worker whose process is busy takes its turn as the reserve does, so this needs a quiet machine.
test("with a large share allowed, a few streams run on one worker", { skip: !isLong }, async () => {
  await using gateway = await startFor({ WORKER_SHARE_PERCENT: "10000" });
  const reserveOf = async ({ urls }: Gateway["workers"][number]) =>
    (await scrape(urls.operations as string)).series.get("sluice_worker_in_reserve")?.[0]?.value ?? 0;
  await until("all but one are in reserve", async () => {
    const reserves = await Promise.all(gateway.workers.map(reserveOf));
    return reserves.filter((value) => value === 1).length === workersCount - 1;
  });
  const leaving = new AbortController();
  await begin(gateway, { count: 30, gapMs: 10, signal: leaving.signal });
  await until("all run", async () => (await runningOf(gateway)).reduce((total, count) => total + count, 0) === 30);
  const counts = await runningOf(gateway);
  assert.ok((counts.at(-1) ?? 0) >= 15, `half of them, or more: ${counts}`);
  leaving.abort();
});
