import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Queue, Worker } from "bullmq";
import { wakeMs } from "#relay/bounds.ts";
import { jobIdOf, type QueuedJob } from "#relay/job.ts";
import type { JobQueue, JobSlot, JobWorker } from "#relay/ports.ts";
import { openJobQueue } from "#relay/redis/job-queue.ts";
import { type JobWorkerOptions, openJobWorker } from "#relay/redis/job-worker.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { jobOf } from "../../../support/jobs.ts";
import { startRedis, type TestRedis } from "../../../support/redis.ts";
import { until, within } from "../../../support/time.ts";

const keyspace = keyspaceOf("queue-test");
let server: TestRedis;
let redis: Redis;
let subscriber: Redis;
let queue: JobQueue;
/** The same queue, with BullMQ alone. */
let bull: Queue;

before(async () => {
  server = await startRedis();
  redis = await connectRedis(server.url, "request");
  redis.on("error", () => {});
  subscriber = await connectRedis(server.url, "subscribe");
});
after(async () => {
  redis.disconnect();
  subscriber.disconnect();
  await server[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await redis.flushall();
  queue = await openJobQueue("chat", redis, keyspace, () => {});
  bull = new Queue("chat", { connection: redis, prefix: keyspace.queuePrefix("chat"), skipMetasUpdate: true });
});

const never = () => assert.fail("the queue refused a job");

const workerOf = async (
  options: Pick<JobWorkerOptions, "name" | "capacity" | "take"> & Partial<JobWorkerOptions>,
): Promise<JobWorker> =>
  openJobWorker(
    {
      isReady: () => true,
      isPaused: () => false,
      freeSlots: () => Number.POSITIVE_INFINITY,
      isReserve: () => false,
      isBusy: () => false,
      shareLeft: () => Number.POSITIVE_INFINITY,
      refreshShare: async () => {},
      onError: () => {},
      ...options,
    },
    { redis: await connectRedis(server.url, "patient"), subscriber },
    keyspace,
  );

async function withWorker(
  capacity: number,
  use: (worker: JobWorker, slots: JobSlot[]) => Promise<void>,
  name = "chat",
): Promise<void> {
  const slots: JobSlot[] = [];
  const worker = await workerOf({ name, capacity, take: (slot) => slots.push(slot) });
  worker.start();
  try {
    await use(worker, slots);
  } finally {
    await worker.stop();
    await worker.close();
  }
}

test("a job that Redis did not take off the queue at first leaves it without a further job", async () => {
  const errors: Error[] = [];
  const slots: JobSlot[] = [];
  const take = (slot: JobSlot) => void slots.push(slot);
  const worker = await workerOf({ name: "chat", capacity: 1, take, onError: (error) => errors.push(error) });
  worker.start();
  try {
    const queued = queue.add(jobOf("gen_a"), never);
    await until("it is taken", () => slots.length === 1);
    await redis.acl("SETUSER", "default", "-lrem");
    slots[0]?.dispatched();
    await until("Redis refused the script", () => errors.length === 1);
    await redis.acl("SETUSER", "default", "+lrem");
    slots[0]?.release();
    await until("it is gone", async () => (await bull.getActiveCount()) === 0);
    assert.deepEqual(await queue.statesOf([queued]), ["missing"]);
  } finally {
    await redis.acl("SETUSER", "default", "+@all");
    await worker.stop();
    await worker.close();
  }
});

test("a job is waiting, then active, then missing, according to two fields of its hash", async () => {
  const queued = queue.add(jobOf("gen_a"), never);
  const state = async () => (await queue.statesOf([queued]))[0];
  await until("it waits", async () => (await state()) === "waiting");
  await withWorker(1, async (_worker, slots) => {
    await until("it is taken", () => slots.length === 1);
    assert.equal(await state(), "active");
    slots[0]?.dispatched();
    await until("it is gone", async () => (await state()) === "missing");
    slots[0]?.release();
  });
});

test("a dispatched job leaves nothing of its body behind", async () => {
  const queued = queue.add(jobOf("gen_secret"), never);
  await withWorker(1, async (_worker, slots) => {
    await until("it is taken", () => slots.length === 1);
    slots[0]?.dispatched();
    await until("it is gone", async () => (await queue.statesOf([queued]))[0] === "missing");
    slots[0]?.release();
  });
  for (const key of await redis.keys("*")) {
    const dump = await redis.dumpBuffer(key);
    assert.ok(!dump?.includes("secret"), key);
  }
});

test("a waiting job can be removed; an active one cannot", async () => {
  const first = queue.add(jobOf("gen_b"), never);
  const second = queue.add(jobOf("gen_c"), never);
  await until("both wait", async () => (await bull.getPrioritizedCount()) === 2);
  await queue.remove(second);
  await withWorker(4, async (_worker, slots) => {
    await until("one is taken", () => slots.length === 1);
    await queue.remove(first);
    assert.deepEqual(await queue.statesOf([first]), ["active"]);
    assert.equal(slots[0]?.job.generation, "gen_b");
    slots[0]?.dispatched();
    slots[0]?.release();
  });
});

test("while workers have free slots, generations added together share a job, which ends with the last dispatch", async () => {
  queue.setFreeSlots(512);
  const names = Array.from({ length: 20 }, (_, index) => `gen_${index}`);
  const queued = names.map((name) => queue.add(jobOf(name), never));
  await until("both jobs wait", async () => (await bull.getPrioritizedCount()) === 2);
  await withWorker(512, async (worker, slots) => {
    await until("all are taken", () => slots.length === 20);
    assert.deepEqual(
      slots.map(({ job }) => job.generation),
      names,
    );
    assert.deepEqual([slots[0]?.freeSlots, slots[19]?.freeSlots, worker.usedSlots], [496, 492, 20]);
    for (const slot of slots.slice(1)) slot.dispatched();
    await until(
      "the second job is over",
      async () => (await queue.statesOf(queued)).filter((state) => state === "missing").length === 4,
    );
    assert.deepEqual(await queue.statesOf(queued.slice(0, 16)), new Array(16).fill("active"));
    slots[0]?.dispatched();
    await until("the first is over", async () => (await queue.statesOf(queued)).every((state) => state === "missing"));
    for (const slot of slots) slot.release();
    assert.equal(worker.usedSlots, 0);
  });
});

test("a shared job is removed when its last generation left", async () => {
  queue.setFreeSlots(64);
  const queued = ["gen_1", "gen_2", "gen_3", "gen_4"].map((name) => queue.add(jobOf(name), never));
  const states = () => queue.statesOf(queued);
  await until("they wait", async () => (await states())[0] === "waiting");
  await Promise.all(queued.slice(0, 3).map((one) => queue.remove(one)));
  assert.deepEqual(await states(), new Array(4).fill("waiting"));
  const left = (await bull.getJob("gen_1-1"))?.data as QueuedJob;
  assert.deepEqual(
    left.generations.map(({ generation }) => generation),
    ["gen_4"],
    "what left is neither run nor kept",
  );
  await queue.remove(queued[3] as (typeof queued)[number]);
  assert.deepEqual(await states(), new Array(4).fill("missing"));
});

test("large bodies, and generations without a free slot, get separate jobs", async () => {
  const large = (name: string) => ({ ...jobOf(name), body: "x".repeat(30_000) });
  queue.setFreeSlots(512);
  for (const name of ["gen_1", "gen_2", "gen_3"]) queue.add(large(name), never);
  await until("they wait in two jobs", async () => (await bull.getPrioritizedCount()) === 2);
  queue.setFreeSlots(20);
  for (const name of ["gen_4", "gen_5"]) queue.add(jobOf(name), never);
  await until("they wait in two more", async () => (await bull.getPrioritizedCount()) === 4);
});

test("an invalid member of a job is skipped, and the others run", async () => {
  queue.setFreeSlots(512);
  for (const name of ["gen_1", "gen_2", "gen_3"])
    queue.add({ ...jobOf(name), ...(name === "gen_2" && { contentType: "x".repeat(501) }) }, never);
  await withWorker(64, async (worker, slots) => {
    await until("two are taken", () => slots.length === 2);
    for (const slot of slots) slot.dispatched();
    for (const slot of slots) slot.release();
    await until("the job is gone", async () => (await bull.getJobCounts("active", "prioritized")).active === 0);
    assert.equal(worker.usedSlots, 0);
  });
});

test("a job whose worker died is removed and not run, because its owner has started another attempt", async () => {
  const orphan = queue.add(jobOf("gen_orphan"), never);
  const lockMs = 100;
  const dead = new Worker("chat", null, {
    connection: redis,
    prefix: keyspace.queuePrefix("chat"),
    autorun: false,
    lockDuration: lockMs,
    stalledInterval: lockMs,
    maxStalledCount: 0,
  });
  dead.on("error", () => {});
  await dead.waitUntilReady();
  await until("it is fetched", async () => (await dead.getNextJob("dead:1", { block: false })) !== undefined);
  await dead.startStalledCheckTimer();
  await until("it is put back", async () => (await bull.getWaitingCount()) === 1);
  await dead.close(true);
  await withWorker(4, async (worker, slots) => {
    await until("it is gone", async () => (await queue.statesOf([orphan]))[0] === "missing");
    queue.add(jobOf("gen_next"), never);
    await until("the next one is taken", () => slots.length > 0);
    assert.deepEqual(
      slots.map(({ job }) => job.generation),
      ["gen_next"],
    );
    for (const slot of slots) {
      slot.dispatched();
      slot.release();
    }
    assert.equal(worker.usedSlots, 0);
  });
});

test("a worker with few slots takes at most one job too many", async () => {
  for (let count = 0; count < 40; count++) queue.add(jobOf(`gen_single${count}`), never);
  await until("they wait", async () => (await bull.getPrioritizedCount()) === 40);
  queue.setFreeSlots(512);
  for (let count = 0; count < 320; count++) queue.add(jobOf(`gen_batch${count}`), never);
  await until("all wait", async () => (await bull.getPrioritizedCount()) === 60);
  await withWorker(64, async (worker, slots) => {
    await until("it is full", () => worker.usedSlots >= 64);
    for (const slot of slots) slot.dispatched();
    await until("its jobs are over", async () => (await bull.getActiveCount()) === 0);
    assert.ok(worker.usedSlots < 64 + 16, `${worker.usedSlots} at once`);
    for (const slot of slots.splice(0)) slot.release();
    await until("it is full again", () => worker.usedSlots >= 64);
    for (const slot of slots) slot.dispatched();
    await until("its jobs are over", async () => (await bull.getActiveCount()) === 0);
    assert.ok(worker.usedSlots < 64 + 16, `${worker.usedSlots} at once`);
  });
});

/** Credit of the only worker, which does not end in a minute. */
async function giveCredit(generations: number): Promise<void> {
  const name = (part: string) => `${keyspace.queuePrefix("chat")}:chat:${part}`;
  let channels: string[] = [];
  await until("the worker hears what it is sent", async () => {
    channels = (await redis.call("PUBSUB", "SHARDCHANNELS", name("sent:*"))) as string[];
    return channels.length === 1;
  });
  const worker = channels[0]?.slice(name("sent:").length) as string;
  await redis.hset(name("credit"), worker, `${generations} ${Date.now() + 60_000}`);
}

test("a worker that took a job soon has credit, and is sent the next one, which ends like any other", async () => {
  await withWorker(64, async (worker, slots) => {
    await redis.config("RESETSTAT");
    await until("a job is sent", async () => {
      const taken = slots.length;
      queue.add(jobOf(`gen_${taken}`), never);
      await until("it is taken", () => slots.length > taken);
      slots[taken]?.dispatched();
      slots[taken]?.release();
      const commands = await redis.info("commandstats");
      return Number(/cmdstat_zpopmin:calls=(\d+)/.exec(commands)?.[1] ?? 0) < slots.length;
    });
    await until("all are over", async () => (await bull.getActiveCount()) === 0);
    assert.equal(worker.usedSlots, 0);
  });
});

test("jobs come in order, sent or fetched, and no more than there is credit for without a fetch", async () => {
  await withWorker(4, async (worker, slots) => {
    await redis.config("RESETSTAT");
    await giveCredit(2);
    for (const name of ["gen_1", "gen_2", "gen_3", "gen_4"]) {
      queue.add(jobOf(name), never);
      await until("it is taken", () => slots.at(-1)?.job.generation === name);
    }
    assert.match(await redis.info("commandstats"), /cmdstat_zpopmin:calls=2,/);
    queue.add(jobOf("gen_5"), never);
    await until("it waits", async () => (await queue.depth()).waiting === 1);
    assert.deepEqual(
      slots.map(({ job }) => job.generation),
      ["gen_1", "gen_2", "gen_3", "gen_4"],
    );
    assert.deepEqual(await queue.depth(), { waiting: 1, active: 4 });
    for (const slot of slots.slice()) {
      slot.dispatched();
      slot.release();
    }
    await until("the fifth is taken", () => slots.length === 5);
    slots[4]?.dispatched();
    slots[4]?.release();
    assert.equal(worker.usedSlots, 0);
  });
});

test("a worker never has more than its slots, however jobs are sent to it and fetched", async () => {
  const count = 600;
  let taken = 0;
  let most = 0;
  const worker = await workerOf({
    name: "chat",
    capacity: 2,
    take(slot) {
      taken++;
      most = Math.max(most, worker.usedSlots);
      // The next turns differ in how far the worker's scripts are on their way.
      let turns = taken % 7;
      const end = () => {
        if (turns-- > 0) return setImmediate(end);
        slot.dispatched();
        slot.release();
      };
      setImmediate(end);
    },
  });
  worker.start();
  try {
    for (let added = 0; added < count; added++) {
      queue.add(jobOf(`gen_${added}`), never);
      if (added % 3 === 0) await until("few wait", () => added - taken < 3);
    }
    await until("all are taken", () => taken === count);
    assert.equal(most, 2);
  } finally {
    await worker.stop();
    await worker.close();
  }
});

for (const [what, hindrance] of Object.entries({
  "is not ready": { isReady: () => false },
  "has no free slot": { freeSlots: () => 0 },
  "may take none of a paused queue": { isPaused: () => true },
}))
  test(`a worker that ${what} puts back what it is sent, and another takes it`, async () => {
    const refusing = await workerOf({ name: "chat", capacity: 4, take: never, ...hindrance });
    refusing.start();
    try {
      await giveCredit(9);
      const queued = queue.add(jobOf("gen_1"), never);
      await until("it waits", async () => (await queue.statesOf([queued]))[0] === "waiting");
      await withWorker(4, async (_worker, slots) => {
        await until("the other takes it", () => slots.length === 1);
        slots[0]?.dispatched();
        slots[0]?.release();
      });
    } finally {
      await refusing.stop();
      await refusing.close();
    }
  });

test("a worker that stops has no credit, and leaves what it is sent meanwhile on the queue", async () => {
  const worker = await workerOf({ name: "chat", capacity: 4, take: never });
  worker.start();
  await giveCredit(9);
  const stopped = worker.stop();
  const queued = Array.from({ length: 5 }, (_, index) => queue.add(jobOf(`gen_${index}`), never));
  await stopped;
  await until("all wait", async () => (await queue.statesOf(queued)).every((state) => state === "waiting"));
  assert.equal((await queue.depth()).waiting, 5);
  await worker.close();
});

test("a queue dispatches jobs in order, and no more than there are slots", async () => {
  const names = Array.from({ length: 40 }, (_, index) => `gen_${index}`);
  for (const name of names) queue.add(jobOf(name), never);
  await withWorker(8, async (worker, slots) => {
    await until("eight are taken", () => slots.length === 8);
    assert.equal(worker.usedSlots, 8);
    for (let next = 0; next < names.length; next++) {
      await until("the next is taken", () => slots[next] !== undefined);
      assert.ok(worker.usedSlots <= 8);
      slots[next]?.dispatched();
      slots[next]?.release();
    }
    assert.deepEqual(slots.map(({ job }) => job.generation).toSorted(), names.toSorted());
    assert.deepEqual(
      slots
        .slice(0, 8)
        .map(({ job }) => job.generation)
        .toSorted(),
      names.slice(0, 8).toSorted(),
    );
    await until("all places are free", () => worker.usedSlots === 0);
  });
});

for (const size of [1, 2])
  test(`jobs that follow each other closely never wait for a worker's next poll: ${size} running`, async (t) => {
    const taken = new Set<string>();
    const workers = await Promise.all(
      Array.from({ length: size }, () =>
        workerOf({
          name: "chat",
          capacity: 64,
          take(slot) {
            taken.add(slot.job.generation);
            slot.dispatched();
            slot.release();
          },
        }),
      ),
    );
    t.after(async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
      await Promise.all(workers.map((worker) => worker.close()));
    });
    for (const worker of workers) worker.start();
    const whenTaken = (generation: string) => {
      queue.add(jobOf(generation), never);
      return within(
        800,
        `${generation} is taken`,
        () => taken.has(generation),
        () => redis.ping(),
      );
    };
    for (let round = 0; round < 150; round++) {
      const first = whenTaken(`gen_${round}a`);
      const secondAt = performance.now() + (round % 30) / 10;
      while (performance.now() < secondAt) await new Promise((resolve) => setImmediate(resolve));
      await Promise.all([first, whenTaken(`gen_${round}b`)]);
    }
  });

test("a worker in reserve sleeps while others take the jobs, and soon takes one that nobody takes", async (t) => {
  const takenBy = { primary: 0, reserve: 0 };
  let isReady = true;
  let queuedAt = 0;
  /** For how long the jobs waited that the worker in reserve took. */
  const leftMs: number[] = [];
  const open = (name: keyof typeof takenBy) =>
    workerOf({
      name: "chat",
      capacity: 64,
      isReady: () => name === "reserve" || isReady,
      isReserve: () => name === "reserve",
      shareLeft: () => Number.POSITIVE_INFINITY,
      refreshShare: async () => {},
      take(slot) {
        takenBy[name]++;
        if (name === "reserve") leftMs.push(performance.now() - queuedAt);
        slot.dispatched();
        slot.release();
      },
    });
  const workers = [await open("primary"), await open("reserve")];
  t.after(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all(workers.map((worker) => worker.close()));
  });
  for (const worker of workers) worker.start();
  for (let count = 1; count <= 20; count++) {
    queuedAt = performance.now();
    const queued = queue.add(jobOf(`gen_primary${count}`), never);
    await until("it is taken", () => takenBy.primary + takenBy.reserve === count);
    queue.taken(queued);
  }
  // On a busy machine a worker may leave one for as long as one in reserve waits.
  for (const ms of leftMs) assert.ok(ms >= wakeMs, `it took a job after ${ms} ms`);
  assert.ok(takenBy.primary > takenBy.reserve);
  const { primary, reserve } = takenBy;
  // Its blocked fetch still takes the marker, as that of a frozen process would.
  isReady = false;
  for (let count = 1; count <= 5; count++) {
    queue.add(jobOf(`gen_left${count}`), never);
    await within(
      1_000,
      "the worker in reserve takes it",
      () => takenBy.reserve === reserve + count,
      () => redis.ping(),
    );
  }
  assert.equal(takenBy.primary, primary, "a worker that is not ready takes none, also when it is woken");
});

test("the same attempt added twice is one job", async () => {
  queue.add(jobOf("gen_twice"), never);
  queue.add(jobOf("gen_twice"), never);
  await until("it waits", async () => (await bull.getPrioritizedCount()) === 1);
  assert.equal((await bull.getJob(jobIdOf({ generation: "gen_twice", attempt: 1 })))?.id, "gen_twice-1");
});

test("with Redis frozen, all gathered jobs fail after one timeout", async () => {
  server.pause();
  let refused = 0;
  const refusedTogether = new Promise<number>((resolve) => {
    for (let count = 0; count < 200; count++)
      queue.add(jobOf(`gen_frozen${count}`), () => {
        if (++refused === 1) setImmediate(() => resolve(refused));
      });
  });
  const count = await refusedTogether;
  server.resume();
  assert.equal(count, 200);
});

test("with Redis away a job fails at once, and a worker continues when Redis is back without data", async () => {
  await withWorker(2, async (_worker, slots) => {
    await server.kill();
    await until("the loss is noticed", () => redis.status !== "ready");
    let refused = 0;
    queue.add(jobOf("gen_lost"), () => refused++);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(refused, 1);
    await server.restartEmpty();
    await until("the connection is back", () => redis.status === "ready");
    queue.add(jobOf("gen_found"), never);
    await within(
      1_500,
      "it is taken",
      () => slots.length === 1,
      () => redis.ping(),
    );
    assert.equal(slots[0]?.job.generation, "gen_found");
    slots[0]?.dispatched();
    slots[0]?.release();
  });
});

test("a queue's event stream stays short, even after Redis lost all data", async () => {
  const eventsMax = 200;
  const run = async (name: string) => {
    await withWorker(64, async (_worker, slots) => {
      for (let count = 0; count < 100; count++) {
        queue.add(jobOf(`gen_${name}${count}`), never);
        await until("it is taken", () => slots.length === count + 1);
        slots[count]?.dispatched();
        slots[count]?.release();
      }
      await until(
        "all jobs are over",
        async () => (await bull.getJobCountByTypes("active", "prioritized", "waiting")) === 0,
      );
    });
    return redis.xlen(bull.toKey("events"));
  };
  const usual = await run("before");
  assert.ok(usual <= eventsMax, `${usual} events`);
  await redis.flushall();
  // The first job of an empty Redis comes before anybody has noticed.
  await run("unnoticed");
  await queue.restoreSettings();
  const after = await run("after");
  assert.ok(after <= eventsMax, `${after} events`);
});

test("a queue and its worker open although Redis stands still for longer than a command may take", async () => {
  server.pause();
  const opening = openJobQueue("slow", redis, keyspace, () => {});
  const stillMs = 2_500;
  await setTimeout(stillMs);
  server.resume();
  const slow = await opening;
  const connecting = withWorker(1, async () => {}, "slow");
  server.pause();
  await setTimeout(stillMs);
  server.resume();
  await connecting;
  await slow.close();
  const startedAt = performance.now();
  server.pause();
  await assert.rejects(redis.ping(), /timed out/);
  server.resume();
  assert.ok(performance.now() - startedAt < stillMs, "afterwards a command has its usual time");
});
