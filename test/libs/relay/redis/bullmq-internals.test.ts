/**
 * The assumptions of bullmq-internals.ts and job-scripts.ts in libs/relay/redis about BullMQ. If a
 * new version fails here, check those files.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Queue, Worker } from "bullmq";
import { creditLifeMs, putBackMsMax } from "#relay/bounds.ts";
import {
  blockingOptionsOf,
  eventStreamSettings,
  JobWait,
  jobStatesOf,
  restoreEventStreamSettings,
} from "#relay/redis/bullmq-internals.ts";
import { decodeSentJob, type FetchedJob, JobScripts } from "#relay/redis/job-scripts.ts";
import { openShardedChannel } from "#service/channel.ts";
import { connectRedis } from "#service/redis.ts";
import { partOf } from "../../../support/part-of.ts";
import { startRedis } from "../../../support/redis.ts";
import { until } from "../../../support/time.ts";

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
  const subscriber = await connectRedis(server.url, "subscribe");
  t.after(() => subscriber.disconnect());
  const heard: [string, string][] = [];
  const channel = openShardedChannel(subscriber, scripts.sentJobsOf("token"), (message) => {
    const { id, data } = decodeSentJob(message.toString());
    heard.push([id, data]);
  });
  await channel.subscribe();
  const sent = async (count: number) => {
    await until(`${count} are sent`, () => heard.length >= count);
    return heard.splice(0);
  };
  const stateOf = async (id: string) => (await jobStatesOf(queue, redis, new Set([id]))).get(id);
  const fetch = (jobsMax: number, over: string[] = [], creditMax = 0) =>
    scripts.fetch("token", { jobsMax, over, wakesReserve: false, creditMax });
  const fetchedIds = async (jobsMax: number, over: string[] = []) =>
    (await fetch(jobsMax, over)).jobs.map(({ id }: FetchedJob) => id);
  const job = (id: string, data = "{}", generations = 1) => ({ id, data, generations });

  await t.test("a job of the scripts has the place and the fields of one that BullMQ added", async () => {
    const options = { jobId: "theirs", removeOnComplete: true, removeOnFail: true, attempts: 1, priority: 1 };
    await queue.add("generation", { generations: [] }, options);
    await scripts.add([job("ours", JSON.stringify({ generations: [] }))]);
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
    await scripts.add([job("ours", "other")]);
    assert.equal(await redis.zcard(key("prioritized")), 2);
    assert.equal(await redis.hget(key("ours"), "data"), JSON.stringify({ generations: [] }));
  });

  await t.test("BullMQ fetches the job of a script, and a script that of BullMQ", async () => {
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["theirs"]);
    assert.equal(await redis.exists(key("marker")), 1, "another job waits");
    const fetched = await worker.getNextJob("other token", { block: false });
    assert.deepEqual([fetched?.id, fetched?.data, fetched?.opts.removeOnComplete], ["ours", { generations: [] }, true]);
  });

  await t.test("a fetched job is active and locked under its token, for both", async () => {
    for (const id of ["theirs", "ours"]) assert.equal(await stateOf(id), "active");
    assert.equal(await redis.get(key("theirs:lock")), "token");
    assert.deepEqual((await queue.getActive()).map(({ id }) => id).toSorted(), ["ours", "theirs"]);
    assert.equal(await queue.remove("theirs"), 0);
  });

  await t.test("a fetch ends jobs that are over, also those that a stalled check has seen", async () => {
    await redis.sadd(key("stalled"), "ours");
    await scripts.add(["one", "two", "three"].map((id) => job(id)));
    assert.deepEqual(await fetchedIds(2, ["ours", "theirs"]), ["one", "two"]);
    assert.deepEqual([await stateOf("ours"), await stateOf("theirs")], ["missing", "missing"]);
    assert.deepEqual(await redis.lrange(key("active"), 0, -1), ["two", "one"]);
    for (const name of ["theirs:lock", "stalled"]) assert.equal(await redis.exists(key(name)), 0);
    assert.deepEqual(await fetchedIds(2, ["one", "two"]), ["three"]);
    assert.deepEqual(await fetch(0, ["three"]), {
      jobs: [],
      isDrained: true,
      credit: 0,
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
    await scripts.add([job("next")]);
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetch(0, []), {
      jobs: [],
      isDrained: false,
      credit: 0,
    });
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["next"]);
    await fetch(0, ["next"]);
  });

  await t.test("while the queue is paused, jobs wait and wake nobody", async () => {
    await queue.pause();
    await scripts.add([job("later")]);
    assert.equal(await redis.exists(key("marker")), 0);
    assert.deepEqual(await fetchedIds(1), []);
    await queue.resume();
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["later"]);
    await fetch(0, ["later"]);
  });

  await t.test("a worker with credit is sent jobs, which are active as if it had fetched them", async () => {
    assert.equal((await fetch(1, [], 2)).credit, 2);
    await scripts.add([job("small", "one two"), job("large", "{}", 16), job("waits")]);
    assert.deepEqual(
      await sent(2),
      [
        ["small", "one two"],
        ["large", "{}"],
      ],
      "the last generations of its credit bring a whole job",
    );
    for (const id of ["small", "large"]) {
      assert.equal(await stateOf(id), "active");
      assert.equal(await redis.get(key(`${id}:lock`)), "token");
    }
    assert.deepEqual(await redis.lrange(key("active"), 0, -1), ["large", "small"]);
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.equal((await fetch(0, ["small", "large"], 2)).credit, 0, "while a job waits, none is given");
    await scripts.add([job("waits too")]);
    assert.deepEqual(await fetchedIds(3), ["waits", "waits too"]);
    assert.equal((await fetch(3, ["waits", "waits too"], 2)).credit, 2);
    await queue.pause();
    await scripts.add([job("held")]);
    await queue.resume();
    assert.equal(await stateOf("held"), "waiting");
    assert.deepEqual(await fetch(1, [], 20), {
      jobs: [{ id: "held", data: "{}", isAbandoned: false }],
      isDrained: true,
      credit: 19,
    });
    await fetch(0, ["held"]);
  });

  await t.test("credit of a worker that is gone, or has been silent, is void", async () => {
    const cases = {
      gone: () => scripts.fetch("gone", { jobsMax: 0, over: [], wakesReserve: false, creditMax: 9 }),
      silent: async () => {
        await fetch(0, [], 9);
        const [, expiry] = (await redis.hget(key("credit"), "token"))?.split(" ") ?? [];
        assert.ok(Math.abs(Number(expiry) - Date.now() - creditLifeMs) < 5_000);
        await redis.hset(key("credit"), "token", `9 ${Number(expiry) - creditLifeMs - 1}`);
      },
      denied: async () => {
        await fetch(0, [], 9);
        await redis.acl("SETUSER", "default", "-spublish");
      },
    };
    for (const [id, prepare] of Object.entries(cases)) {
      await prepare();
      await scripts.add([job(id)]);
      await redis.acl("SETUSER", "default", "+spublish");
      assert.equal(await stateOf(id), "waiting", id);
      assert.equal(await redis.exists(key("marker"), key("credit")), 1, "the marker");
      assert.deepEqual(await fetchedIds(1), [id]);
      await fetch(0, [id]);
    }
    await scripts.fetch("gone", { jobsMax: 0, over: [], wakesReserve: false, creditMax: 9 });
    await fetch(0, [], 9);
    for (let one = 0; one < 9; one++) await scripts.add([job(`for-the-other-${one}`)]);
    assert.equal((await sent(9)).length, 9);
    await fetch(
      0,
      Array.from({ length: 9 }, (_, one) => `for-the-other-${one}`),
    );
  });

  await t.test("a job that its worker puts back is the first that waits, and the worker has no credit", async () => {
    await fetch(0, [], 9);
    await scripts.add([job("back")]);
    await sent(1);
    await scripts.putBack("token", "back");
    await scripts.putBack("token", "unknown");
    await scripts.add([job("next")]);
    assert.equal(await redis.exists(key("credit"), key("back:lock")), 0);
    assert.equal(await stateOf("back"), "waiting");
    assert.equal(await wait.untilJob({ seconds: 1, onError: ignore }), true);
    assert.deepEqual(await fetchedIds(1), ["back"]);
    const theirs = await worker.getNextJob("other token", { block: false });
    assert.equal(theirs?.id, "next");
    await fetch(0, ["back", "next"]);
    assert.deepEqual(heard, [], "nothing else was sent");
  });

  await t.test("a job that is put back too late is removed, or stays with the worker that has it now", async () => {
    await fetch(0, [], 9);
    await scripts.add([job("old"), job("again")]);
    await sent(2);
    await redis.pexpire(key("old:lock"), 90_000 - putBackMsMax - 1);
    await scripts.putBack("token", "old");
    assert.equal(await redis.exists(key("old"), key("old:lock")), 0);
    await scripts.putBack("token", "again");
    const other = { jobsMax: 1, over: [], wakesReserve: false, creditMax: 0 };
    assert.equal((await scripts.fetch("other", other)).jobs[0]?.id, "again");
    await scripts.putBack("token", "again");
    assert.deepEqual(await redis.lrange(key("active"), 0, -1), ["again"]);
    assert.equal(await redis.get(key("again:lock")), "other");
    await fetch(0, ["again"]);
  });

  await t.test("jobs of one call keep their order, also where BullMQ's counter starts again", async () => {
    await redis.set(key("pc"), 2 ** 32 - 2);
    const ids = Array.from({ length: 300 }, (_, index) => `job-${index}`);
    await scripts.add(ids.slice(0, 1).map((id) => job(id)));
    await redis.del(key("pc"));
    await scripts.add(ids.slice(1).map((id) => job(id)));
    assert.deepEqual(await fetchedIds(300), [...ids.slice(1), ids[0]], "as with BullMQ's own script");
    await fetch(0, ids);
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
    await scripts.add([job("lost")]);
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
    assert.deepEqual((await fetch(1, [])).jobs, [{ id: "lost", data: "{}", isAbandoned: true }]);
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
