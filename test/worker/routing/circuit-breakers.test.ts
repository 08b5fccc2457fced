import assert from "node:assert/strict";
import { after, type TestContext, test } from "node:test";
import { EventStream } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import { circuitBreakerPollMs } from "../../../apps/worker/bounds.ts";
import { CircuitBreakers } from "../../../apps/worker/routing/circuit-breakers.ts";
import { partOf } from "../../support/part-of.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "patient");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

interface Entry {
  failures: number;
  level: number;
  until_: number;
  at: number;
}

const entryOf = async (key: string): Promise<Entry | undefined> => {
  const text = await redis.hget(key, "target");
  return text === null ? undefined : (JSON.parse(text) as Entry);
};

/** Fails once more, and waits until Redis has counted it. */
async function failing(circuitBreakers: CircuitBreakers, key: string, count: number): Promise<void> {
  circuitBreakers.failed("target", 3);
  await until(`${count} failures are counted`, async () => (await entryOf(key))?.failures === count);
}

/**
 * Moves the end of the circuit breaker's time to this many ms from now by Redis' clock, or to long
 * ago.
 */
async function endingIn(key: string, ms: number): Promise<void> {
  const entry = (await entryOf(key)) as Entry;
  const until_ = ms > 0 ? entry.at + ms : 0;
  await redis.hset(key, "target", JSON.stringify({ ...entry, until_ }));
}

/** An open circuit breaker. */
async function opened(key: string): Promise<CircuitBreakers> {
  const circuitBreakers = new CircuitBreakers(redis, key);
  for (const count of [1, 2, 3]) await failing(circuitBreakers, key, count);
  await until("it is open", () => circuitBreakers.stateOf("target", 0) === "open");
  return circuitBreakers;
}

/** Another worker, which polls the circuit breakers in Redis when the test says so. */
function otherWorker(t: TestContext, key: string) {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const circuitBreakers = new CircuitBreakers(redis, key);
  circuitBreakers.start();
  t.after(() => circuitBreakers.close());
  const states = (now: number) => circuitBreakers.states(now).map(({ state }) => state);
  return {
    circuitBreakers,
    states,
    looks: async (what: string, holds: () => boolean) => {
      t.mock.timers.tick(500);
      await until(what, holds);
    },
  };
}

test("failures in a row open a circuit breaker; failures that are too far apart do not", async () => {
  const circuitBreakers = new CircuitBreakers(redis, "row");
  await failing(circuitBreakers, "row", 1);
  await failing(circuitBreakers, "row", 2);
  const entry = (await entryOf("row")) as Entry;
  assert.equal(circuitBreakers.stateOf("target", performance.now()), "closed");
  // Moves the last failure back by more than the time within which failures count as in a row.
  await redis.hset("row", "target", JSON.stringify({ ...entry, at: entry.at - 31_000 }));
  await failing(circuitBreakers, "row", 1);
  assert.equal((await entryOf("row"))?.level, 0, "the row began anew");
  await failing(circuitBreakers, "row", 2);
  await failing(circuitBreakers, "row", 3);
  await until("it is open", () => circuitBreakers.stateOf("target", performance.now()) !== "closed");
});

test("an answer starts the count of failures again", async () => {
  const circuitBreakers = new CircuitBreakers(redis, "answered");
  await failing(circuitBreakers, "answered", 1);
  await failing(circuitBreakers, "answered", 2);
  circuitBreakers.succeeded("target");
  await until("the failures are forgotten", async () => (await entryOf("answered")) === undefined);
  await failing(circuitBreakers, "answered", 1);
  assert.equal(circuitBreakers.stateOf("target", performance.now()), "closed");
});

test("a half-open circuit breaker lets one probe through, and the next only when that one ends without a result or is late", async () => {
  const circuitBreakers = new CircuitBreakers(redis, "proof");
  for (const count of [1, 2, 3]) await failing(circuitBreakers, "proof", count);
  await until("it is open", () => circuitBreakers.stateOf("target", performance.now()) === "open");
  const entry = (await entryOf("proof")) as Entry;
  await redis.hset("proof", "target", JSON.stringify({ ...entry, until_: 0 }));
  const later = performance.now() + 60_000;
  assert.equal(await circuitBreakers.enter("target", "one", later), 0);
  assert.ok((await circuitBreakers.enter("target", "two", later)) > 0);
  circuitBreakers.unproven("target");
  await until("the proof is free", async () => (await redis.exists("proof:proof:target")) === 0);
  assert.equal(await circuitBreakers.enter("target", "two", later), 0);
});

test("a circuit breaker stays open twice as long after each failed probe, up to four seconds", async () => {
  const circuitBreakers = await opened("longer");
  const openMs = async () => {
    const { until_, at } = (await entryOf("longer")) as Entry;
    return until_ - at;
  };
  const lengths = [await openMs()];
  for (const count of [4, 5, 6]) {
    await endingIn("longer", 0);
    await failing(circuitBreakers, "longer", count);
    lengths.push(await openMs());
  }
  assert.deepEqual(lengths, [1_000, 2_000, 4_000, 4_000]);
});

test("calls that fail while a circuit breaker is open do not keep it open for longer", async () => {
  const circuitBreakers = await opened("late");
  await endingIn("late", 60_000);
  const before = (await entryOf("late")) as Entry;
  await failing(circuitBreakers, "late", 4);
  const { until_, level } = (await entryOf("late")) as Entry;
  assert.deepEqual([until_, level], [before.until_, before.level]);
});

test("after a failed probe another worker may probe the target as soon as the circuit breaker's time is over", async () => {
  const circuitBreakers = await opened("next");
  await endingIn("next", 0);
  const later = performance.now() + 60_000;
  assert.equal(await circuitBreakers.enter("target", "one", later), 0);
  await failing(circuitBreakers, "next", 4);
  await endingIn("next", 0);
  assert.equal(await circuitBreakers.enter("target", "two", later), 0);
});

test("a worker with old knowledge learns from Redis how long the circuit breaker is open", async () => {
  const circuitBreakers = await opened("old");
  await endingIn("old", 60_000);
  const later = performance.now() + 600_000;
  assert.equal(circuitBreakers.stateOf("target", later), "half-open");
  const forMs = await circuitBreakers.enter("target", "one", later);
  assert.ok(forMs > 0 && forMs <= 60_000, `${forMs} ms`);
  assert.deepEqual(
    [circuitBreakers.stateOf("target", later), circuitBreakers.stateOf("target", later + forMs)],
    ["open", "half-open"],
  );
});

test("when a circuit breaker's time is over, one call goes through, not all", async () => {
  const circuitBreakers = await opened("moment");
  const moment = await circuitBreakers.enter("target", "one", 0);
  assert.deepEqual(
    [circuitBreakers.stateOf("target", moment - 1), circuitBreakers.stateOf("target", moment)],
    ["open", "half-open"],
  );
  await endingIn("moment", 0);
  assert.equal(await circuitBreakers.enter("target", "one", moment), 0);
  assert.ok((await circuitBreakers.enter("target", "two", moment)) > 0);
});

test("a worker learns about other workers' circuit breakers: closed, open, half-open, and gone", async (t) => {
  const failed = new CircuitBreakers(redis, "shared");
  await failing(failed, "shared", 1);
  const { circuitBreakers, states, looks } = otherWorker(t, "shared");
  await looks("a failure is known", () => circuitBreakers.states(0).length === 1);
  assert.deepEqual(states(performance.now()), ["closed"]);
  assert.equal(await circuitBreakers.enter("target", "one", 0), 0);

  for (const count of [2, 3]) await failing(failed, "shared", count);
  await endingIn("shared", 60_000);
  await looks("it is known to be open", () => states(performance.now())[0] === "open");
  const forMs = await circuitBreakers.enter("target", "one", performance.now());
  assert.ok(forMs > 0 && forMs <= 60_000, `${forMs} ms`);

  await endingIn("shared", 0);
  await looks("it may be tried", () => states(performance.now())[0] === "half-open");

  failed.succeeded("target");
  await until("it is gone from Redis", async () => (await entryOf("shared")) === undefined);
  await looks("it is forgotten", () => states(0).length === 0);
});

test("a closed worker polls no more", async (t) => {
  const { circuitBreakers, looks } = otherWorker(t, "closed");
  await failing(new CircuitBreakers(redis, "closed"), "closed", 1);
  await looks("a failure is known", () => circuitBreakers.states(0).length === 1);
  circuitBreakers.close();
  await redis.config("RESETSTAT");
  t.mock.timers.tick(5_000);
  assert.doesNotMatch(await redis.info("commandstats"), /cmdstat_(eval|evalsha|hgetall):/);
});

test("a target that never failed costs no Redis command", async () => {
  const circuitBreakers = new CircuitBreakers(redis, "healthy");
  await redis.config("RESETSTAT");
  assert.equal(await circuitBreakers.enter("target", "one", 0), 0);
  circuitBreakers.succeeded("target");
  assert.doesNotMatch(await redis.info("commandstats"), /cmdstat_(eval|evalsha|hdel|del):/);
});

test("Redis forgets a target that nobody calls any more", async () => {
  await failing(new CircuitBreakers(redis, "unused"), "unused", 1);
  const lifeMs = await redis.pttl("unused");
  assert.ok(lifeMs > 0 && lifeMs <= 600_000, `${lifeMs} ms`);
});

test("while Redis is away an open circuit breaker stays open for its time, then all calls are allowed, and nothing throws", async () => {
  const own = await connectRedis(server.url, "request");
  const circuitBreakers = new CircuitBreakers(own, "away");
  for (const count of [1, 2, 3]) await failing(circuitBreakers, "away", count);
  await until("it is open", () => circuitBreakers.stateOf("target", 0) === "open");
  own.disconnect();
  assert.ok((await circuitBreakers.enter("target", "one", 0)) > 0);
  assert.equal(await circuitBreakers.enter("target", "one", performance.now() + 60_000), 0);
  circuitBreakers.unproven("target");
  circuitBreakers.failed("target", 3);
  circuitBreakers.succeeded("target");
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(circuitBreakers.stateOf("target", 0), "closed");
});

test("a worker whose targets are called looks for changes at every poll, an idle one at every second", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let polls = 0;
  const counted = partOf<Redis>({ status: "ready", exists: async () => ++polls && 0 });
  const circuitBreakers = new CircuitBreakers(counted, "polled");
  circuitBreakers.start();
  t.after(() => circuitBreakers.close());
  const tick = () => t.mock.timers.tick(circuitBreakerPollMs);
  for (let round = 0; round < 4; round++) {
    circuitBreakers.stateOf("target", 0);
    tick();
  }
  assert.equal(polls, 4);
  for (let round = 0; round < 4; round++) tick();
  assert.equal(polls, 6);
});

test("the worker whose call opens a circuit breaker reports it once, and so does the one whose call closes it", async () => {
  const reported: string[] = [];
  const events = new EventStream<WorkerEvents>({
    circuitBreakerOpened: ({ target, openMs }) => reported.push(`${target} opened for ${openMs > 0}`),
    circuitBreakerClosed: ({ target }) => reported.push(`${target} closed`),
  });
  const circuitBreakers = new CircuitBreakers(redis, "reported", undefined, { events });
  for (const count of [1, 2, 3]) await failing(circuitBreakers, "reported", count);
  await until("it is open", () => circuitBreakers.stateOf("target", 0) === "open");
  await failing(circuitBreakers, "reported", 4);
  assert.deepEqual(reported, ["target opened for true"]);
  circuitBreakers.succeeded("target");
  circuitBreakers.succeeded("target");
  await failing(circuitBreakers, "reported", 1);
  circuitBreakers.succeeded("target");
  assert.deepEqual(reported, ["target opened for true", "target closed"]);
});
