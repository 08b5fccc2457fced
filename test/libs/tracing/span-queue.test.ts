import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { pino } from "pino";
import type { FinishedSpan } from "#tracing/span.ts";
import { SpanQueue } from "#tracing/span-queue.ts";
import { newSpanId, newTraceId } from "#tracing/trace-context.ts";

const span: FinishedSpan = {
  context: {
    traceId: newTraceId(),
    spanId: newSpanId(),
    isSampled: true,
    traceState: undefined,
    parentSpanId: undefined,
    hasRemoteParent: false,
    link: undefined,
  },
  name: "a span",
  kind: "internal",
  startedAt: 0,
  endedAt: 1,
  attributes: {},
  events: [],
  error: undefined,
};

/** A collector that takes a batch, or refuses it, when the test says so. */
function createCollector() {
  const batches: { size: number; take(): void; refuse(): void }[] = [];
  const lines: { msg: string }[] = [];
  const queue = new SpanQueue({
    exportEveryMs: 1_000,
    waitingMax: 1_200,
    log: pino({}, { write: (line: string) => lines.push(JSON.parse(line)) }),
    send: ({ length }) =>
      new Promise((resolve, reject) => {
        batches.push({ size: length, take: resolve, refuse: () => reject(new Error("refused")) });
      }),
  });
  const add = (count: number) => {
    for (let index = 0; index < count; index++) queue.add(span);
  };
  return { queue, batches, lines, add, sizes: () => batches.map(({ size }) => size) };
}

/** Lets what follows a promise happen. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

test("spans leave after a second, or when they fill a batch, one batch at a time", async () => {
  const { queue, batches, add, sizes } = createCollector();
  add(3);
  mock.timers.tick(999);
  assert.deepEqual(sizes(), []);
  mock.timers.tick(1);
  assert.deepEqual(sizes(), [3]);
  add(600);
  mock.timers.tick(5_000);
  assert.deepEqual(sizes(), [3]);
  batches[0]?.take();
  await settled();
  mock.timers.tick(0);
  assert.deepEqual(sizes(), [3, 512]);
  batches[1]?.take();
  await settled();
  mock.timers.tick(999);
  assert.deepEqual(sizes(), [3, 512]);
  mock.timers.tick(1);
  assert.deepEqual(sizes(), [3, 512, 88]);
  assert.deepEqual(queue.counts, { exported: 515, dropped: 0, waiting: 0 });
});

test("what exceeds the bound, and what the collector refuses, is dropped and counted; the log says so once", async () => {
  const { queue, batches, add, lines } = createCollector();
  add(512);
  mock.timers.tick(0);
  add(1_300);
  assert.deepEqual(queue.counts, { exported: 0, dropped: 100, waiting: 1_200 });
  for (let index = 0; index < 3; index++) {
    batches[index]?.refuse();
    await settled();
    mock.timers.tick(1_000);
  }
  assert.deepEqual(queue.counts, { exported: 0, dropped: 100 + 3 * 512, waiting: 0 });
  assert.deepEqual(
    lines.map(({ msg }) => msg),
    ["spans were dropped: the collector did not take them"],
  );
  batches[3]?.take();
  await settled();
  assert.equal(queue.counts.exported, 1_200 - 2 * 512);
  assert.equal(lines[1]?.msg, "the collector takes spans again");
});

test("the end sends what waits, and does not wait longer than two seconds", async () => {
  const quick = createCollector();
  quick.add(700);
  const closed = quick.queue.close();
  quick.batches[0]?.take();
  await settled();
  quick.batches[1]?.take();
  await closed;
  assert.deepEqual(quick.queue.counts, { exported: 700, dropped: 0, waiting: 0 });

  const silent = createCollector();
  silent.add(700);
  const ended = silent.queue.close();
  mock.timers.tick(2_000);
  await ended;
  assert.deepEqual(silent.queue.counts, { exported: 0, dropped: 188, waiting: 0 });
});
