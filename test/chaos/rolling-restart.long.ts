import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";

const models = { fast: "sim-text;rate=0;first=0;tokens=8", short: "sim-text;rate=20;first=0;tokens=60" };
const catalogue = catalogueOf(Object.entries(models).map(([id, model]) => ({ id, model })));

test("a rolling restart of every process under load loses no request", async () => {
  // The notice is for whoever asks after readiness, which takes as long as that process is held up.
  await using gateway = await startGateway({
    processes: "all",
    catalogue,
    ingresses: 2,
    workers: ["chat=32", "chat=32"],
    environment: { DRAIN_NOTICE_MS: "3000" },
  });
  let running = true;
  let ingresses = gateway.ingresses.map((role) => role.urls);
  const ready = new Set<string>();
  const watch = async () => {
    while (running) {
      await Promise.all(
        ingresses.map(async ({ api, operations }) => {
          const ok = await fetch(`${operations}/readyz`).then(
            (response) => response.ok,
            () => false,
          );
          if (ok) ready.add(api as string);
          else ready.delete(api as string);
        }),
      );
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const outcomes = { complete: 0, lost: [] as string[] };
  const load = async (seat: number) => {
    for (let turn = seat; running; turn++) {
      const urls = [...ready];
      const url = urls[turn % urls.length];
      if (url === undefined) {
        outcomes.lost.push("no ingress was ready");
        return;
      }
      const stream = turn % 2 === 0;
      try {
        const response = await gateway.post(
          { model: stream ? "short" : "fast", stream, messages: [{ role: "user", content: "hello" }] },
          { url },
        );
        const complete = stream
          ? (await readStream(response)).done
          : response.ok && ((await response.json()) as { choices: unknown[] }).choices.length === 1;
        if (complete) outcomes.complete++;
        else outcomes.lost.push(`${response.status} from ${url}`);
      } catch (error) {
        outcomes.lost.push(
          `${(error as Error).message} (${((error as Error).cause as Error | undefined)?.message}) from ${url}`,
        );
      }
    }
  };
  const watching = watch();
  await until("both are ready", () => ready.size === 2);
  const seats = Array.from({ length: 12 }, (_, seat) => load(seat));
  await until("the load flows", () => outcomes.complete > 20);
  for (const worker of gateway.workers.slice()) {
    await gateway.addWorker("chat=32");
    assert.equal(await worker.stop(), 0, worker.complaints());
  }
  for (const ingress of gateway.ingresses.slice()) {
    const next = await gateway.addIngress();
    ingresses = [...ingresses, next.urls];
    await until("the new one is ready", () => ready.has(next.urls.api as string));
    assert.equal(await ingress.stop(), 0, ingress.complaints());
    ingresses = ingresses.filter(({ api }) => api !== ingress.urls.api);
    ready.delete(ingress.urls.api as string);
  }
  const settled = outcomes.complete;
  await until("the load flows on", () => outcomes.complete > settled + 20);
  running = false;
  await Promise.all([...seats, watching]);
  assert.deepEqual(outcomes.lost, []);
});
