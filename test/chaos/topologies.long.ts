/**
 * Fail-overs as callers see them: behind Sentinels and on a cluster, the primary of the chat queue,
 * of the ingress's mailbox and of the rate limits is replaced in order, killed and frozen, while
 * callers stream and send short requests. The diagnostics are the figures of docs/reliability.md.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { keyspaceOf } from "#service/keyspace.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { startCluster, startSentinels, type Topology } from "../support/redis-topologies.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";

const keyspace = keyspaceOf("sluice");
const streamModel = "sim-text;rate=40;first=0;tokens=400";
const catalogue = catalogueOf([
  { id: "fast", model: "sim-text;rate=0;first=0;tokens=8" },
  { id: "picture", model: "sim-text;rate=0;first=0;tokens=8", queue: "image" },
  { id: "stream", model: streamModel },
]);
const limited = { limits: { requestsPerMinute: 1_000_000 } };
const streamsSize = 8;
/** How long short requests are observed after the fault. */
const observedMs = 12_000;

/** Callers' view of one fault. */
interface Seen {
  statuses: Record<number, number>;
  /** The longest of the short requests that ended after the fault. */
  slowestMs: number;
  /** The longest of those of another queue. */
  otherSlowestMs: number;
  /** The longest pause between two chunks of a stream. */
  gapMs: number;
  /** Streams that ended complete. */
  complete: number;
}

async function observe(gateway: Gateway, key: string, fault: () => Promise<unknown>): Promise<Seen> {
  const seen: Seen = { statuses: {}, slowestMs: 0, otherSlowestMs: 0, gapMs: 0, complete: 0 };
  const whole = await readStream(await gateway.post({ model: "stream", stream: true, messages }));
  const streams = Array.from({ length: streamsSize }, async () => {
    let at = Number.NaN;
    const read = await readStream(await gateway.post({ model: "stream", stream: true, messages }), () => {
      const now = performance.now();
      seen.gapMs = Math.max(seen.gapMs, now - at || 0);
      at = now;
    });
    assert.equal(read.error, undefined);
    assert.equal(read.content, whole.content, "each word once, in order");
    if (read.done) seen.complete++;
  });
  const before = (await gateway.seen(streamModel)).length;
  await until("the streams run", async () => (await gateway.seen(streamModel)).length >= before);
  let isOver = false;
  let faultAt = Number.POSITIVE_INFINITY;
  const caller = async (model: string, use: string | undefined, more: (ms: number) => void) => {
    while (!isOver) {
      const at = performance.now();
      const response = await gateway.post({ model, messages }, use === undefined ? {} : { key: use });
      await response.text();
      seen.statuses[response.status] = (seen.statuses[response.status] ?? 0) + 1;
      if (performance.now() >= faultAt) more(performance.now() - at);
      await delay(20);
    }
  };
  const slowest = (ms: number) => {
    seen.slowestMs = Math.max(seen.slowestMs, ms);
  };
  const callers = [
    caller("fast", undefined, slowest),
    caller("fast", key, slowest),
    caller("picture", undefined, (ms) => {
      seen.otherSlowestMs = Math.max(seen.otherSlowestMs, ms);
    }),
  ];
  faultAt = performance.now();
  await fault();
  await delay(observedMs);
  isOver = true;
  await Promise.all([...callers, ...streams]);
  return seen;
}

const messages = [{ role: "user", content: "hello" }];

const rounded = ({ slowestMs, otherSlowestMs, gapMs, ...others }: Seen) =>
  JSON.stringify({
    slowestMs: Math.round(slowestMs),
    otherSlowestMs: Math.round(otherSlowestMs),
    gapMs: Math.round(gapMs),
    ...others,
  });

async function faultsOf(
  context: TestContext,
  topology: Topology,
  subjects: Record<string, (gateway: Gateway) => string>,
) {
  await using gateway = await startGateway({
    processes: "all",
    workers: ["chat=64,image=4", "chat=64,image=4"],
    catalogue,
    environment: { REDIS_URL: topology.url },
  });
  const key = await gateway.createKey("default", limited);
  for (const [subject, nameOf] of Object.entries(subjects)) {
    const name = nameOf(gateway);
    const faults: Record<string, () => Promise<unknown>> = {
      planned: () => topology.failOver(name),
      killed: async () => {
        const server = await topology.primaryOf(name);
        await server.kill();
        return server;
      },
      frozen: async () => {
        const server = await topology.primaryOf(name);
        server.pause();
        return server;
      },
    };
    for (const [fault, run] of Object.entries(faults)) {
      let hit: unknown;
      const seen = await observe(gateway, key, async () => {
        hit = await run();
      });
      context.diagnostic(`${subject}, ${fault}: ${rounded(seen)}`);
      if (fault === "killed") await (hit as { restart(): Promise<void> }).restart();
      if (fault === "frozen") (hit as { resume(): void }).resume();
      assert.deepEqual(Object.keys(seen.statuses), ["200"], `${subject}, ${fault}: no request was refused`);
      assert.equal(seen.complete, streamsSize, `${subject}, ${fault}: every stream ends complete`);
      assert.ok(seen.slowestMs < (fault === "planned" ? 3_000 : 8_000), `${subject}, ${fault}: ${seen.slowestMs} ms`);
      await topology.settled();
    }
  }
}

test("Sentinels: no request is refused and no stream is lost when the primary is replaced, killed or frozen", async (context) => {
  await using sentinels = await startSentinels();
  await faultsOf(context, sentinels, { "the primary": () => "any" });
});

test("a cluster: no request is refused and no stream is lost when a primary is replaced, killed or frozen", async (context) => {
  await using cluster = await startCluster();
  await faultsOf(context, cluster, {
    "the chat queue's primary": () => keyspace.queuePrefix("chat"),
    "the rate limits' primary": () => keyspace.limitsSettled,
  });
});
