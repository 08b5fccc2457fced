/** The bindings of sessions, which workers share through one Redis. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { bindingMs, bindingRenewedMs } from "../../../apps/worker/bounds.ts";
import { Bindings } from "../../../apps/worker/routing/bindings.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const server = await startRedis();
const started: { disconnect(): void }[] = [];
after(() => {
  for (const connection of started) connection.disconnect();
  return server[Symbol.asyncDispose]();
});

async function startBindings(time = { now: 0 }) {
  const [redis, subscriber] = [await connectRedis(server.url, "request"), await connectRedis(server.url, "subscribe")];
  started.push(redis, subscriber);
  const clock = { now: () => time.now, epoch: () => Date.now() };
  const bindings = new Bindings({ redis, subscriber, keyspace: keyspaceOf("sluice"), clock });
  await bindings.start();
  return bindings;
}
const commandsOf = async () => {
  const connection = await connectRedis(server.url, "request");
  const text = await connection.info("commandstats");
  connection.disconnect();
  return [...text.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
};

test("a binding is known to all workers, to those that start later too, until it is taken back", async () => {
  const [one, other] = [await startBindings(), await startBindings()];
  one.bind("session", "place-1");
  assert.equal(one.placeOf("session"), "place-1");
  await until("the other worker knows it", () => other.placeOf("session") === "place-1");
  assert.equal((await startBindings()).placeOf("session"), "place-1");
  other.bind("session", undefined);
  await until("it is taken back", () => one.placeOf("session") === undefined);
  assert.equal((await startBindings()).placeOf("session"), undefined);
});

test("it lasts for an hour after its last use, which costs a command a quarter of an hour", async () => {
  const time = { now: 0 };
  const bindings = await startBindings(time);
  const before = await commandsOf();
  bindings.bind("sliding", "place-1");
  for (time.now = 60_000; time.now < bindingRenewedMs; time.now += 60_000) bindings.bind("sliding", "place-1");
  await until("it is stored", async () => (await commandsOf()) > before);
  assert.equal(await commandsOf(), before + 1);
  time.now += bindingMs - 60_001;
  assert.equal(bindings.placeOf("sliding"), "place-1");
  bindings.bind("sliding", "place-1");
  await until("it is announced again", async () => (await commandsOf()) === before + 2);
  time.now += bindingMs - 1;
  assert.equal(bindings.placeOf("sliding"), "place-1");
  time.now += 1;
  assert.equal(bindings.placeOf("sliding"), undefined);
});

test("without Redis a worker keeps what it knows", async () => {
  const bindings = await startBindings();
  bindings.bind("kept", "place-1");
  for (const connection of started) connection.disconnect();
  bindings.bind("local", "place-2");
  assert.deepEqual([bindings.placeOf("kept"), bindings.placeOf("local")], ["place-1", "place-2"]);
});
