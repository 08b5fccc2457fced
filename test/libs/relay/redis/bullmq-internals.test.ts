/**
 * The assumptions of libs/relay/redis/bullmq-internals.ts about BullMQ. If a new version fails
 * here, check that file.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Job, Queue, Worker } from "bullmq";
import {
  blockingOptionsOf,
  eventStreamSettings,
  JobFetcher,
  jobStatesOf,
  restoreEventStreamSettings,
} from "#relay/redis/bullmq-internals.ts";
import { connectRedis } from "#service/redis.ts";
import { partOf } from "../../../support/part-of.ts";
import { startRedis } from "../../../support/redis.ts";

const prefix = "{internals:queue}";

test("BullMQ works inside as the relay assumes", async (t) => {
  const server = await startRedis();
  t.after(() => server[Symbol.asyncDispose]());
  const redis = await connectRedis(server.url, "request");
  const blocking = await connectRedis(server.url, "patient");
  t.after(() => {
    redis.disconnect();
    blocking.disconnect();
  });
  const queue = new Queue("chat", {
    connection: redis,
    prefix,
    skipWaitingForReady: true,
    streams: eventStreamSettings,
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true, priority: 1 },
  });
  t.after(() => queue.close());
  await queue.waitUntilReady();
  const worker = new Worker("chat", null, { connection: blocking, prefix, autorun: false, lockDuration: 90_000 });
  t.after(() => worker.close(true));
  worker.on("error", () => {});
  await worker.waitUntilReady();
  assert.ok("connectTimeout" in (await blockingOptionsOf(worker)));
  const fetcher = new JobFetcher(worker, redis);
  const key = (name: string) => `${prefix}:chat:${name}`;
  const ignore = () => {};
  const stateOf = async (id: string) => (await jobStatesOf(queue, redis, new Set([id]))).get(id);

  await t.test(
    "a prioritized job lies in a sorted set, its fields in a hash, and a marker wakes a blocked fetch",
    async () => {
      await queue.add("generation", { generations: [] }, { jobId: "one" });
      assert.deepEqual(await redis.zrange(key("prioritized"), 0, "-1"), ["one"]);
      assert.equal(await redis.type(key("one")), "hash");
      assert.equal(await redis.exists(key("marker")), 1);
      assert.equal(await stateOf("one"), "waiting");
      assert.equal(await fetcher.quieten(), false, "the marker of a queue with jobs stays");
    },
  );

  let job: Job | undefined;
  await t.test("a fetch makes the job active and locked under its token", async () => {
    assert.equal(await fetcher.waitForJob(1, ignore), true);
    job = await fetcher.next();
    assert.equal(job?.id, "one");
    assert.equal(await stateOf("one"), "active");
    assert.equal(await redis.get(key("one:lock")), job?.token);
    assert.equal(fetcher.isAbandoned(job as Job), false);
    assert.equal(await fetcher.next(), undefined);
  });

  await t.test("completing a job fetches the next one in the same step and removes the first", async () => {
    await queue.add("generation", { generations: [] }, { jobId: "two" });
    const next = await fetcher.next(job as Job);
    assert.equal(next?.id, "two");
    assert.deepEqual([await stateOf("one"), await stateOf("two")], ["missing", "active"]);
    await fetcher.complete(next as Job);
    assert.equal(await stateOf("two"), "missing");
  });

  await t.test("the marker of an empty queue can be removed; then a blocked fetch waits in vain", async () => {
    assert.equal(await fetcher.quieten(), true);
    assert.equal(await redis.exists(key("marker")), 0);
    assert.equal(await fetcher.waitForJob(1, ignore), false);
  });

  await t.test("the event stream stays empty, also after Redis lost the queue's settings", async () => {
    assert.equal(await redis.hget(key("meta"), "opts.maxLenEvents"), "0");
    await redis.flushall();
    await restoreEventStreamSettings(queue, redis);
    assert.equal(await redis.hget(key("meta"), "opts.maxLenEvents"), "0");
    for (let count = 0; count < 300; count++) await queue.add("generation", {}, { jobId: `more-${count}` });
    assert.ok((await redis.xlen(key("events"))) < 300);
  });

  await t.test("a job whose worker died comes back marked with a failure", async () => {
    await redis.flushall();
    await queue.add("generation", { generations: [] }, { jobId: "lost" });
    await fetcher.waitForJob(1, ignore);
    await fetcher.next();
    await redis.del(key("lost:lock"));
    const stalled = new Worker("chat", null, {
      connection: blocking,
      prefix,
      autorun: false,
      stalledInterval: 1,
      maxStalledCount: 0,
    });
    stalled.on("error", ignore);
    await stalled.waitUntilReady();
    const backend = stalled.getBackend() as ReturnType<typeof stalled.getBackend> & {
      moveStalledJobsToWait(): Promise<unknown>;
    };
    for (let round = 0; round < 2; round++) {
      await redis.del(key("stalled-check"));
      await backend.moveStalledJobsToWait();
    }
    const again = await fetcher.next();
    assert.equal(again?.id, "lost");
    assert.equal(fetcher.isAbandoned(again as Job), true);
    await stalled.close(true);
  });
});

test("a blocked fetch that never ends, on a connection that never opens again, is over in time", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const never = () => new Promise<never>(() => {});
  const backend = { waitForJob: never, reconnectBlocking: never };
  const worker = partOf<Worker>({ getBackend: () => backend, toKey: (key: string) => key });
  const errors: Error[] = [];
  const fetcher = new JobFetcher(worker, undefined as never);
  const waiting = fetcher.waitForJob(1, (error) => errors.push(error));
  const rejected = assert.rejects(waiting, /took more than 4000 ms/);
  t.mock.timers.tick(4_000);
  await new Promise(setImmediate);
  t.mock.timers.tick(3_000);
  await rejected;
  assert.match(String(errors[0]), /took more than 3000 ms/);
});
