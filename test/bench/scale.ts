/**
 * Scale: the cost of one more stream, worker, waiting job, key or model when there are many. The
 * lines should be flat.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Queue } from "bullmq";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { gather } from "./crowd.ts";
import { chatBodyOf, chatPath, requestOf, runShort, type ShortLoad, startStreams } from "./load.ts";
import { openFilesMax } from "./processes.ts";
import { type Row, record, rowOf, type Table } from "./report.ts";
import { type Bench, inTurn, measureStreams, meterOf, perOne, untilCalm, warmUp } from "./rounds.ts";
import { type Sluice, type SluiceOptions, startSluice, unattendedModel, unattendedQueue } from "./sluice.ts";
import { streamChunks, streamModel, streamMs } from "./streams.ts";
import { isPresent, type System } from "./system.ts";

const shortModel = "short-0";
/** Over all streams, however many. */
const chunksPerSecond = 2_000;
/** Longer than the measurement. */
const streamLastsMs = 40_000;
const filesBeside = 500;
/** For reference. */
const directCounts = [10, 5_000];

const intervalOf = (streams: number): number => (streams * 1_000) / chunksPerSecond;
const slowChunksOf = (streams: number): number => streamLastsMs / intervalOf(streams);
export const slowModelOf = (streams: number): string => `stream-${slowChunksOf(streams)}-${intervalOf(streams)}`;
/** Callers whose starts are spread over one interval, so that chunks come evenly. */
export const slowStreamsOf = (system: System, streams: number) => ({
  system,
  path: chatPath,
  body: chatBodyOf(slowModelOf(streams), { stream: true }),
  callers: streams,
  rampMs: intervalOf(streams),
  chunks: slowChunksOf(streams),
});

const withOne = async (
  bench: Bench,
  options: Partial<SluiceOptions> & { models: string[] },
  use: (sluice: Sluice) => Promise<void>,
) => {
  const sluice = await startSluice({
    name: "sluice",
    ingresses: 1,
    workers: 1,
    upstreamUrl: bench.upstream.url,
    ...options,
  });
  try {
    if (!bench.quick) await warmUp(sluice, bench, shortModel);
    await use(sluice);
  } finally {
    await sluice.stop();
  }
};

/**
 * The cost of each request at full speed, in CPU seconds by kind of process, minus the background
 * load.
 */
async function measureRequests(
  table: Table,
  labels: Row["labels"],
  load: ShortLoad,
  background: Record<string, number> = {},
): Promise<void> {
  const meter = meterOf(load.system);
  const { requests, seconds, p50Ms, p99Ms, errors } = await runShort(load);
  const cpu = Object.fromEntries(
    Object.entries(meter()).map(([key, took]) => [key, took - (background[key] ?? 0) * seconds]),
  );
  record(table, labels, { requestsPerSecond: requests / seconds, p50Ms, p99Ms, ...perOne(cpu, requests) }, errors);
}

const requestColumns = [
  { key: "requestsPerSecond", head: "requests/s", digits: 0 },
  { key: "p50Ms", head: "p50 ms", digits: 2 },
  { key: "p99Ms", head: "p99 ms", digits: 2 },
  { key: "cpu", head: "CPU µs/request", digits: 0 },
];

export async function measureOpenStreams(bench: Bench): Promise<Table> {
  const counts = (bench.quick ? [10, 200] : [10, 100, 1_000, 5_000, 10_000]).filter(
    (count) => count + filesBeside <= openFilesMax(),
  );
  const seconds = bench.quick ? 1 : 3;
  const table: Table = {
    key: "open-streams",
    title: "Scale: open streams",
    notes: [
      `So many streams are open that together bring ${chunksPerSecond.toLocaleString("en")} chunks a second, however many they are: what a chunk costs;`,
      "then what a short answer costs meanwhile, of 16 callers, less the cost of the streams.",
    ],
    labels: ["open streams", "system"],
    columns: [
      { key: "chunk", head: "CPU µs/chunk", digits: 1 },
      { key: "delayP50", head: "delay p50 ms", digits: 2 },
      { key: "delayP99", head: "delay p99 ms", digits: 1 },
      ...requestColumns,
    ],
    rows: [],
  };
  const measure = async (system: System, count: number) => {
    const streams = await startStreams(slowStreamsOf(system, count));
    try {
      await delay(bench.quick ? 200 : 1_500);
      const meter = meterOf(system);
      let background: Record<string, number> = {};
      const window = await streams.watch(seconds * 1_000, async () => {
        await delay(seconds * 1_000);
        background = perOne(meter(), seconds * 1e6);
      });
      const { delayP50, delayP99, chunks, errors } = window;
      record(
        table,
        [count, system.name],
        { chunk: ((background.cpu as number) * seconds * 1e6) / chunks, delayP50, delayP99 },
        errors,
      );
      const load: ShortLoad = { system, path: chatPath, bodies: [chatBodyOf(shortModel)], connections: 16, seconds };
      const beside = await streams.watch(0, () => measureRequests(table, [count, system.name], load, background));
      record(table, [count, system.name], {}, beside.errors);
    } finally {
      await streams.stop();
    }
    await delay(bench.quick ? 0 : 1_000);
  };
  const direct = bench.systems.filter(isPresent).find((system) => system.name === "direct" && !bench.quick);
  await withOne(bench, { models: [shortModel, ...counts.map(slowModelOf)] }, async (sluice) => {
    for (let round = 0; round < bench.rounds; round++)
      for (const count of counts)
        for (const system of [
          sluice,
          ...(direct && directCounts.includes(count) && 2 * count + filesBeside <= openFilesMax() ? [direct] : []),
        ]) {
          bench.tell(`${count} open streams, round ${round + 1}: ${system.name}`);
          if (system === direct) await inTurn(system, shortModel, () => measure(system, count));
          else await measure(system, count);
        }
  });
  return table;
}

export async function measureWorkers(bench: Bench): Promise<Table> {
  const table: Table = {
    key: "workers",
    title: "Scale: workers",
    notes: [
      "One ingress and a growing number of workers: short answers for 64 callers, and 300 streams of 64 chunks at 20 ms.",
    ],
    labels: ["workers"],
    columns: [
      ...requestColumns,
      { key: "chunk", head: "CPU µs/chunk", digits: 1 },
      { key: "chunksPerSecond", head: "chunks/s", digits: 0 },
    ],
    rows: [],
  };
  const callers = bench.quick ? 16 : 300;
  for (const workers of bench.quick ? [2] : [1, 2, 4])
    await withOne(bench, { workers, models: [shortModel, streamModel] }, async (system) => {
      for (let round = 0; round < bench.rounds; round++) {
        bench.tell(`${workers} workers, round ${round + 1}`);
        await measureRequests(table, [workers], {
          system,
          path: chatPath,
          bodies: [chatBodyOf(shortModel)],
          connections: 64,
          seconds: bench.quick ? 1 : 3,
        });
        const body = chatBodyOf(streamModel, { stream: true });
        const load = {
          system,
          path: chatPath,
          body,
          callers,
          rampMs: bench.quick ? 300 : streamMs,
          chunks: streamChunks,
        };
        const { window, figures } = await measureStreams(bench.upstream, load, {
          settleMs: bench.quick ? 0 : 700,
          windowMs: bench.quick ? 1_000 : 4_000,
        });
        record(
          table,
          [workers],
          { chunk: figures.cpu as number, chunksPerSecond: figures.chunksPerSecond as number },
          window.errors,
        );
      }
    });
  return table;
}

export async function measureWaiting(bench: Bench): Promise<Table> {
  const count = bench.quick ? 1_000 : 100_000;
  const many = count.toLocaleString("en");
  const portion = count / 100;
  const table: Table = {
    key: "waiting",
    title: "Scale: waiting generations",
    notes: [
      `What a short answer costs, of 16 callers, while ${many} others wait on a queue that no worker works on: asked for by callers, and so held back by the ingress; or put into Redis as jobs.`,
      `Then what a request costs of ${many} that come at once and are answered in turn, beside ${portion.toLocaleString("en")} that do.`,
    ],
    labels: ["waiting"],
    columns: requestColumns,
    rows: [],
  };
  const measure = (system: System, label: string) =>
    measureRequests(table, [label], {
      system,
      path: chatPath,
      bodies: [chatBodyOf(shortModel)],
      connections: 16,
      seconds: bench.quick ? 1 : 4,
    });
  const answerAll = async (system: System, label: string, total: number, portion: number) => {
    const meter = meterOf(system);
    const began = performance.now();
    let bad = 0;
    for (let begun = 0; begun < total; begun += portion) {
      const crowd = await gather(
        system.urls[0] as string,
        requestOf(system, chatPath, chatBodyOf(shortModel)),
        portion,
      );
      bad += await crowd.answered(120_000).finally(crowd.leave);
    }
    const figures = { requestsPerSecond: (total * 1_000) / (performance.now() - began), ...perOne(meter(), total) };
    record(table, [label], figures, bad > 0 ? [`${bad} answers were not 200`] : []);
  };
  await withOne(bench, { models: [shortModel] }, async (system) => {
    for (let round = 0; round < bench.rounds; round++) {
      bench.tell(`waiting generations, round ${round + 1}`);
      await measure(system, "none");
      const crowd = await gather(
        system.urls[0] as string,
        requestOf(system, chatPath, chatBodyOf(unattendedModel)),
        count,
      );
      await untilCalm(system);
      await measure(system, `${many} held by the ingress`);
      if (crowd.seen > 0) record(table, [`${many} held by the ingress`], {}, [`${crowd.seen} of them were answered`]);
      crowd.leave();
      await untilCalm(system);
      await answerAll(system, `${portion.toLocaleString("en")} at once, again and again`, count / 5, portion);
      await answerAll(system, `${many} at once`, count, count);
      await untilCalm(system);
    }
    await layJobs(system, count);
    for (let round = 0; round < bench.rounds; round++) await measure(system, `${many} as jobs in Redis`);
  });
  return table;
}

/** Puts jobs on a queue without workers, as an ingress does. */
async function layJobs(sluice: Sluice, count: number): Promise<void> {
  const connection = await connectRedis(sluice.redisUrl, "request");
  const keyspace = keyspaceOf("sluice");
  const prefix = keyspace.queuePrefix(unattendedQueue);
  const jobQueue = new Queue(unattendedQueue, { connection, prefix, skipMetasUpdate: true });
  const portion = 1_000;
  for (let laid = 0; laid < count; laid += portion)
    await jobQueue.addBulk(
      Array.from({ length: portion }, (_, place) => ({
        name: "generation",
        data: { generation: `gen_bench${laid + place}`, owner: "bench", body: chatBodyOf(unattendedModel) },
        opts: { jobId: `gen_bench${laid + place}-1` },
      })),
    );
  await jobQueue.close();
  connection.disconnect();
}

export async function measureKeysAndModels(bench: Bench): Promise<Table> {
  const [keys, models] = bench.quick ? [50, 50] : [1_000, 500];
  const table: Table = {
    key: "keys-and-models",
    title: "Scale: keys and models",
    notes: [
      `Short answers for 64 callers of a gateway with ${keys.toLocaleString("en")} keys and ${models} models, beside one with a single key and a few models.`,
      "Every key has all five limits, none of which is ever reached, except the one without limits.",
    ],
    labels: ["asked with"],
    columns: requestColumns,
    rows: [],
  };
  const names = Array.from({ length: models }, (_, place) => `short-0-${place}`);
  await withOne(bench, { models: [shortModel, streamModel] }, (few) =>
    withOne(bench, { models: [shortModel, ...names] }, async (many) => {
      const callers = await many.createKeys("limited", keys);
      const unlimited = await many.createKeys("default", 1);
      await delay(1_500);
      const one = [chatBodyOf(shortModel)];
      const cases: [string, Pick<ShortLoad, "system" | "bodies" | "keys">][] = [
        ["one key, one model, there are no others", { system: few, bodies: one }],
        ["one key, one model, of many", { system: many, bodies: one }],
        [`${keys.toLocaleString("en")} keys in turn`, { system: many, bodies: one, keys: callers }],
        [`${models} models in turn`, { system: many, bodies: names.map((name) => chatBodyOf(name)) }],
        ["a key without limits", { system: many, bodies: one, keys: unlimited }],
      ];
      for (const [label] of cases) rowOf(table, [label]);
      for (let round = 0; round < bench.rounds; round++)
        for (const place of cases.keys()) {
          const [label, load] = cases[(place + round) % cases.length] as (typeof cases)[number];
          bench.tell(`keys and models, round ${round + 1}: ${label}`);
          await measureRequests(table, [label], {
            ...load,
            path: chatPath,
            connections: 64,
            seconds: bench.quick ? 1 : 3,
          });
        }
    }),
  );
  return table;
}
