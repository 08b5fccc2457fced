/**
 * The assumptions of bullmq-internals.ts and job-scripts.ts in libs/relay/redis about BullMQ. If a
 * new version fails here, check those files.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Queue, Worker } from "bullmq";
import {
  blockingOptionsOf,
  eventStreamSettings,
  JobWait,
  jobStatesOf,
  restoreEventStreamSettings,
} from "#relay/redis/bullmq-internals.ts";
import { type FetchedJob, JobScripts } from "#relay/redis/job-scripts.ts";
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
  const wait = new JobWait(worker);
  const scripts = new JobScripts(queue, redis);
  const key = (name: string) => `${prefix}:chat:${name}`;
  const ignore = () => {};
  const stateOf = async (id: string) => (await jobStatesOf(queue, redis, new Set([id]))).get(id);
  const fetchedIds = async (jobsMax: number, over: string[] = []) =>
    (await scripts.fetch("token", { jobsMax, over, wakesReserve: false })).jobs.map(({ id }: FetchedJob) => id);

  await t.test("a job of the scripts has the place and the fields of one that BullMQ added", async () => {
    const options = { jobId: "theirs", removeOnComplete: true, removeOnFail: true, attempts: 1, priority: 1 };
    await queue.add("generation", { generations: [] }, options);
    await scripts.add([{ id: "ours", data: JSON.stringify({ generations: [] }) }]);
    const [theirs, ours] = await Promise.all(["theirs", "ours"].map((id) => redis.hgetall(key(id))));
    const comparable = ({ timestamp, opts, ...fields }: Record<string, string> = {}) => ({
      ...fields,
      opts: { ...JSON.parse(opts ?? ""), jobId: undefined },
      hasTimestamp: Number(timestamp) > 1_700_000_000_000,
    });
    assert.deepEqual(comparable(ours), comparable(theirs));
    assert.deepEqual(await redis.zrange(key("prioritized"), 0, "-1", "WITHSCORES"), [
      ...["theirs", String(2 ** 32 + 1)],
      ...["ours", String(2 ** 32 + 2)],
    ]);
    assert.equal(await redis.exists(key("marker")), 1);
    assert.deepEqual(await queue.getJobCounts("prioritized", "active"), { prioritized: 2, active: 0 });
    assert.equal(await stateOf("ours"), "waiting");
  });

  await t.test("a job that is on the queue already is not added again", async () => {
    await scripts.add([{ id: "ours", data: "other" }]);
    assert.equal(await redis.zcard(key("prioritized")), 2);
    assert.equal(await redis.hget(key("ours"), "data"), JSON.stringify({ generations: [] }));
  });

  await t.test("BullMQ fetches the job of a script, and a script that of BullMQ", async () => {
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["theirs"]);
    assert.equal(await redis.exists(key("marker")), 1, "another job waits");
    const job = await worker.getNextJob("other token", { block: false });
    assert.deepEqual([job?.id, job?.data, job?.opts.removeOnComplete], ["ours", { generations: [] }, true]);
  });

  await t.test("a fetched job is active and locked under its token, for both", async () => {
    for (const id of ["theirs", "ours"]) assert.equal(await stateOf(id), "active");
    assert.equal(await redis.get(key("theirs:lock")), "token");
    assert.deepEqual((await queue.getActive()).map(({ id }) => id).toSorted(), ["ours", "theirs"]);
    assert.equal(await queue.remove("theirs"), 0);
  });

  await t.test("a fetch ends jobs that are over, also those that a stalled check has seen", async () => {
    await redis.sadd(key("stalled"), "ours");
    await scripts.add(["one", "two", "three"].map((id) => ({ id, data: "{}" })));
    assert.deepEqual(await fetchedIds(2, ["ours", "theirs"]), ["one", "two"]);
    assert.deepEqual([await stateOf("ours"), await stateOf("theirs")], ["missing", "missing"]);
    assert.deepEqual(await redis.lrange(key("active"), 0, -1), ["two", "one"]);
    for (const name of ["theirs:lock", "stalled"]) assert.equal(await redis.exists(key(name)), 0);
    assert.deepEqual(await fetchedIds(2, ["one", "two"]), ["three"]);
    assert.deepEqual(await scripts.fetch("token", { jobsMax: 0, over: ["three"], wakesReserve: false }), {
      jobs: [],
      isDrained: true,
    });
  });

  await t.test("nothing is left of ended jobs but settings, so a blocked fetch waits in vain", async () => {
    assert.deepEqual(
      (await redis.keys(key("*"))).filter((name) => !/:(meta|events|id)$/.test(name)),
      [],
    );
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), false);
  });

  await t.test("a fetch of no job puts the marker back, which wakes the next one", async () => {
    await scripts.add([{ id: "next", data: "{}" }]);
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await scripts.fetch("token", { jobsMax: 0, over: [], wakesReserve: false }), {
      jobs: [],
      isDrained: false,
    });
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["next"]);
    await scripts.fetch("token", { jobsMax: 0, over: ["next"], wakesReserve: false });
  });

  await t.test("while the queue is paused, jobs wait and wake nobody", async () => {
    await queue.pause();
    await scripts.add([{ id: "later", data: "{}" }]);
    assert.equal(await redis.exists(key("marker")), 0);
    assert.deepEqual(await fetchedIds(1), []);
    await queue.resume();
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["later"]);
    await scripts.fetch("token", { jobsMax: 0, over: ["later"], wakesReserve: false });
  });

  await t.test("jobs of one call keep their order, also where BullMQ's counter starts again", async () => {
    await redis.set(key("pc"), 2 ** 32 - 2);
    const ids = Array.from({ length: 300 }, (_, index) => `job-${index}`);
    await scripts.add(ids.slice(0, 1).map((id) => ({ id, data: "{}" })));
    await redis.del(key("pc"));
    await scripts.add(ids.slice(1).map((id) => ({ id, data: "{}" })));
    assert.deepEqual(await fetchedIds(300), [...ids.slice(1), ids[0]], "as with BullMQ's own script");
    await scripts.fetch("token", { jobsMax: 0, over: ids, wakesReserve: false });
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
    await scripts.add([{ id: "lost", data: "{}" }]);
    assert.deepEqual(await fetchedIds(1), ["lost"]);
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
    assert.deepEqual((await scripts.fetch("token", { jobsMax: 1, over: [], wakesReserve: false })).jobs, [
      { id: "lost", data: "{}", isAbandoned: true },
    ]);
    await stalled.close(true);
  });
});

test("a blocked fetch that never ends, on a connection that never opens again, is over in time", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const never = () => new Promise<never>(() => {});
  const backend = { waitForJob: never, reconnectBlocking: never };
  const worker = partOf<Worker>({ getBackend: () => backend });
  const errors: Error[] = [];
  const waiting = new JobWait(worker).untilJob({ seconds: 1, onError: (error) => errors.push(error) });
  const rejected = assert.rejects(waiting, /took more than 4000 ms/);
  t.mock.timers.tick(4_000);
  await new Promise(setImmediate);
  t.mock.timers.tick(3_000);
  await rejected;
  assert.match(String(errors[0]), /took more than 3000 ms/);
});
