import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { CircuitBreakers } from "../../../apps/worker/routing/circuit-breakers.ts";
import { until } from "../../support/gateway.ts";
import { startRedis } from "../../support/redis.ts";

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

test("failures in a row open a circuit breaker, and those that are too far apart are not in a row", async () => {
  const circuitBreakers = new CircuitBreakers(redis, "row");
  await failing(circuitBreakers, "row", 1);
  await failing(circuitBreakers, "row", 2);
  const entry = (await entryOf("row")) as Entry;
  assert.equal(circuitBreakers.stateOf("target", performance.now()), "closed");
  // As if the last failure had been more than the length of a row ago, by Redis' clock.
  await redis.hset("row", "target", JSON.stringify({ ...entry, at: entry.at - 31_000 }));
  await failing(circuitBreakers, "row", 1);
  assert.equal((await entryOf("row"))?.level, 0, "the row began anew");
  await failing(circuitBreakers, "row", 2);
  await failing(circuitBreakers, "row", 3);
  await until("it is open", () => circuitBreakers.stateOf("target", performance.now()) !== "closed");
});

test("a target that answered begins a new row", async () => {
  const circuitBreakers = new CircuitBreakers(redis, "answered");
  await failing(circuitBreakers, "answered", 1);
  await failing(circuitBreakers, "answered", 2);
  circuitBreakers.succeeded("target");
  await until("the failures are forgotten", async () => (await entryOf("answered")) === undefined);
  await failing(circuitBreakers, "answered", 1);
  assert.equal(circuitBreakers.stateOf("target", performance.now()), "closed");
});

test("an open circuit breaker lets one holder through, and the next only when that one is unproven or late", async () => {
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
