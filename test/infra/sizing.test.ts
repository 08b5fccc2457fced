/**
 * The sizes in docs/queues-and-scaling.md against runs: the one in docs/performance.md, and one
 * here.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { connectRedis } from "#service/redis.ts";
import {
  chunkBytes,
  chunkCosts,
  chunksOfStream,
  defaultLimits,
  sizeOf,
  sizingPage,
  withSizes,
} from "../../infra/kubernetes/sizing.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";

const performancePage = readFileSync(join(import.meta.dirname, "../../docs/performance.md"), "utf8");
/** The cells of the first row that begins so, below a heading. */
function rowOf(heading: string, ...first: string[]): Record<string, number> {
  const section = performancePage.slice(performancePage.indexOf(`\n## ${heading}\n`) + 1);
  const lines = section.slice(0, section.indexOf("\n## ", 1)).split("\n");
  const cellsOf = (line: string) => line.split("|").map((cell) => cell.trim());
  const isRow = (line: string) =>
    cellsOf(line)
      .slice(1, 1 + first.length)
      .join() === first.join();
  const [heads = [], row = []] = [lines.find((line) => line.startsWith("| callers")), lines.find(isRow)].map((line) =>
    cellsOf(line ?? ""),
  );
  return Object.fromEntries(heads.map((head, place) => [head, Number(row[place]?.replaceAll(",", ""))]));
}

test("a chunk costs what a run of 300 streams measured, or up to a half more", () => {
  const measured = rowOf("Streams: CPU by process", "300", "sluice");
  for (const role of ["worker", "ingress", "redis"] as const) {
    const share = chunkCosts[role] / measured[role]!;
    assert.ok(share >= 1 && share <= 1.5, `${role}: ${chunkCosts[role]} µs, measured ${measured[role]} µs`);
  }
});

test("the two cores of the run brought at least the chunks that the costs promise", () => {
  const { "chunks/s": chunks, "load and upstream µs/chunk": loadCost } = rowOf("Streams", "1,000", "sluice");
  const cost = chunkCosts.worker + chunkCosts.ingress + chunkCosts.redis + loadCost!;
  const promised = 2e6 / cost;
  assert.ok(promised > 15_000 && promised <= chunks!, `${promised} are promised, ${chunks} were measured`);
});

test("sizes grow with the streams and their rate, in cells of 100,000", () => {
  const limits = defaultLimits();
  assert.deepEqual(limits, { workerStreams: 2_048, ingressStreams: 10_000 });
  assert.deepEqual(sizeOf(10_000, chunksOfStream, limits), {
    streams: 10_000,
    chunksPerSecond: 200_000,
    cells: 1,
    workers: 14,
    ingresses: 12,
    redisPrimaries: 2,
    redisBits: 608_000_000,
  });
  const [cell, million] = [100_000, 1_000_000].map((streams) => sizeOf(streams, chunksOfStream, limits));
  assert.equal(million!.cells, 10);
  for (const name of ["workers", "ingresses", "redisPrimaries", "redisBits", "chunksPerSecond"] as const)
    assert.equal(million![name], 10 * cell![name], name);
  assert.equal(sizeOf(100_001, chunksOfStream, limits).cells, 2);
  // Slow streams need slots, not cores.
  assert.equal(sizeOf(10_000, 0.1, limits).workers, Math.ceil(10_000 / (2_048 * 0.7)) + 1);
});

test("docs/queues-and-scaling.md has the sizes; `npm run reference` writes them", () => {
  const page = readFileSync(sizingPage, "utf8");
  assert.equal(page, withSizes(page));
});

const skip = isLong ? false : "a part of npm run test:long";

test("a chunk that travels alone has about as many bytes at Redis as the sizes say", { skip }, async (t) => {
  const streams = 8;
  const [short, long] = [20, 120];
  const models = [short, long].map((chunks) => ({
    id: `stream-${chunks}`,
    model: `sim-text;rate=20;first=0;tokens=${chunks}`,
  }));
  await using gateway = await startGateway({ catalogue: catalogueOf(models) });
  const redis = await connectRedis(gateway.redis.url, "patient");
  const bytes = async () => {
    const text = await redis.info("stats");
    return ["input", "output"].map((way) => Number(new RegExp(`total_net_${way}_bytes:(\\d+)`).exec(text)?.[1]));
  };
  const during = async (act: () => Promise<unknown>) => {
    const before = await bytes();
    await act();
    const after = await bytes();
    return after.map((count, way) => count - before[way]!);
  };
  const streamsOf = (chunks: number) => () =>
    Promise.all(
      Array.from({ length: streams }, async () => {
        const messages = [{ role: "user", content: "Hello" }];
        return (await gateway.post({ model: `stream-${chunks}`, messages, stream: true })).text();
      }),
    );
  try {
    await streamsOf(short)();
    // The requests themselves, and heartbeats meanwhile, are no part of a chunk.
    const idle = await during(() => delay(((long - short) / 20) * 1_000));
    const few = await during(streamsOf(short));
    const many = await during(streamsOf(long));
    const ofChunk = many.map((count, way) => (count - few[way]! - idle[way]!) / (streams * (long - short)));
    t.diagnostic(`${ofChunk.map(Math.round).join(" and ")} bytes into Redis and from it for each chunk`);
    for (const count of ofChunk) assert.ok(count > chunkBytes * 0.6 && count <= chunkBytes * 1.1, `${count} bytes`);
  } finally {
    redis.disconnect();
  }
});
