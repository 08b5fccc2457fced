/** The limits of upstreams, which workers share through one Redis. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { firstOutputTokens, vendorWindowSeconds } from "../../../apps/worker/bounds.ts";
import { type LimitScope, type Slot, Slots } from "../../../apps/worker/routing/slots.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
const other = await connectRedis(server.url, "request");
after(() => {
  redis.disconnect();
  other.disconnect();
  return server[Symbol.asyncDispose]();
});
const { slots: keyOf } = keyspaceOf("sluice");
const workers = [new Slots(redis, keyOf), new Slots(other, keyOf)] as const;

let calls = 0;
const take = (upstream: string, scopes: LimitScope[], inputTokens = 0, worker = workers[calls % 2] as Slots) =>
  worker.take({ upstream, target: `${upstream}/m`, holder: `call-${calls++}`, scopes, inputTokens });
const only = (limits: LimitScope["limits"]): LimitScope[] => [{ name: "", limits }];
const slotOf = (slot: Awaited<ReturnType<typeof take>>): Slot => {
  assert.ok("release" in slot, JSON.stringify(slot));
  return slot;
};
const minuteOf = (upstream: string) => keyOf(upstream, ":minute");

/** Moves what was counted so many seconds into the past. */
async function age(upstream: string, seconds: number): Promise<void> {
  const fields = await redis.hgetall(minuteOf(upstream));
  await redis.del(minuteOf(upstream));
  for (const [field, count] of Object.entries(fields))
    await redis.hset(minuteOf(upstream), `${Number.parseInt(field, 10) - seconds}${field.slice(-1)}`, count);
}

test("no worker sends more than the requests of a minute, and all learn when the next may go", async () => {
  const limits = only({ requestsPerMinute: 10 });
  const taken = await Promise.all(Array.from({ length: 50 }, () => take("requests", limits)));
  assert.equal(taken.filter((slot) => "release" in slot).length, 10);
  for (const slot of taken)
    if ("by" in slot) {
      assert.equal(slot.by, "rate-limit");
      assert.ok(slot.by === "rate-limit" && slot.forMs > 60_000 && slot.forMs <= 62_000);
    }
  await age("requests", vendorWindowSeconds - 1);
  assert.ok("by" in (await take("requests", limits)), "a second before the minute has passed for certain");
  await age("requests", 2);
  slotOf(await take("requests", limits));
});

test("tokens are estimated from the request and the target's answers, and corrected at the end", async () => {
  const limits = only({ tokensPerMinute: 2_000 });
  const first = slotOf(await take("tokens", limits, 1_000, workers[0]));
  assert.ok("by" in (await take("tokens", limits, 1, workers[1])), `1000 and ${firstOutputTokens} are counted`);
  first.release({ inputTokens: 900, outputTokens: 100 });
  const tokensOf = async () => Object.values(await redis.hgetall(minuteOf("tokens"))).map(Number);
  await until("it is corrected", async () => (await tokensOf())[0] === 1_000);
  // This worker knows that the target's answers have about 100 tokens.
  slotOf(await take("tokens", limits, 900, workers[0]));
  assert.ok("by" in (await take("tokens", limits, 0, workers[0])));
});

test("a request of more tokens than the limit goes when nothing else was sent for a minute", async () => {
  const limits = only({ tokensPerMinute: 100 });
  slotOf(await take("large", limits, 5_000));
  assert.ok("by" in (await take("large", limits, 5_000)));
  await age("large", vendorWindowSeconds + 1);
  slotOf(await take("large", limits, 5_000));
});

test("a call that one limit stops counts nowhere, and says which limit is full", async () => {
  const scopes = [
    { name: "", limits: { requestsPerMinute: 5 } },
    { name: "credential:KEY", limits: { concurrencyMax: 1 } },
    { name: "target:KEY:up/m", limits: { requestsPerMinute: 2 } },
  ];
  const first = slotOf(await take("scopes", scopes));
  for (let call = 0; call < 5; call++)
    assert.deepEqual(await take("scopes", scopes), { scope: "credential:KEY", by: "concurrency" });
  first.release();
  await until("its slot is free", async () => (await redis.zcard(keyOf("scopes", "credential:KEY"))) === 0);
  slotOf(await take("scopes", scopes)).release();
  await until("the next is free", async () => (await redis.zcard(keyOf("scopes", "credential:KEY"))) === 0);
  const full = await take("scopes", scopes);
  assert.equal("scope" in full && full.scope, "target:KEY:up/m");
  assert.equal(
    Object.values(await redis.hgetall(minuteOf("scopes"))).reduce((sum, count) => sum + Number(count), 0),
    2,
  );
});

test("limits cost one command for a call and one for its end, requests per minute alone none", async () => {
  const commands = async () =>
    [...(await redis.info("commandstats")).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  let before = await commands();
  const step = async () => {
    const now = await commands();
    const count = now - before;
    before = now;
    return count;
  };
  slotOf(await take("nothing", [])).release({ inputTokens: 1, outputTokens: 1 });
  assert.equal(await step(), 0);
  slotOf(await take("cost", only({ requestsPerMinute: 5 }))).release({ inputTokens: 1, outputTokens: 1 });
  assert.equal(await step(), 1);
  const slot = slotOf(await take("cost", only({ requestsPerMinute: 5, tokensPerMinute: 9_000, concurrencyMax: 3 })));
  assert.equal(await step(), 1);
  slot.release({ inputTokens: 1, outputTokens: 1 });
  await until("it is released", async () => (await redis.zcard(keyOf("cost", ""))) === 0);
  assert.equal(await step(), 1);
});
