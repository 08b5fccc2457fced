import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { fullCollections } from "../../support/collections.ts";
import { startRedis } from "../../support/redis.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

/** Commands that 64 values wait for at a time. */
const commands = `const { Command } = await import("ioredis");
  const sent = [];
  const add = (count, value) => {
    const command = new Command("get", ["name"]);
    command.promise.then(() => value.length);
    sent[count % 128] = command;
  };
  const remove = (count) => { if (count >= 0) sent[count % 128].resolve(Buffer.from("OK")); };`;

test("what waited for a command is freed by the next minor collection", () => {
  const ofIoredis = fullCollections(commands);
  const ours = fullCollections(`await import("#service/young-commands.ts"); ${commands}`);
  assert.ok(ours * 3 < ofIoredis, `${ours} full collections, and ${ofIoredis} with ioredis alone`);
});

test("a command's arguments are written as ioredis writes them", async () => {
  await redis.hset("hash", { name: "value", number: 7 });
  await redis.mset({ one: 1, two: "zwei" });
  await redis.set("bytes", Buffer.from([0, 255]));
  assert.deepEqual(await redis.hgetall("hash"), { name: "value", number: "7" });
  assert.deepEqual(await redis.mget("one", "two"), ["1", "zwei"]);
  assert.deepEqual(await redis.getBuffer("bytes"), Buffer.from([0, 255]));
});

test("a command that Redis refuses rejects, also in a pipeline and in a transaction", async () => {
  await redis.set("text", "no number");
  const refused = /not an integer/;
  await assert.rejects(redis.incr("text"), refused);
  for (const batch of [redis.pipeline(), redis.multi()]) {
    const replies = (await batch.incr("text").get("text").exec()) ?? [];
    assert.match(String(replies[0]?.[0]), refused);
    assert.deepEqual(replies[1], [null, "no number"]);
  }
});

test("a callback gets the reply or the error", async () => {
  const reply = await new Promise((resolve) => redis.get("text", (_error, value) => resolve(value)));
  assert.equal(reply, "no number");
  const error = await new Promise((resolve) => redis.incr("text", (fault) => resolve(fault)));
  assert.match(String(error), /not an integer/);
});

test("a command that is not answered in time rejects", async () => {
  const waiting = redis.blpop("nothing", 5);
  await assert.rejects(waiting, /timed out/);
});
