import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { startRedis } from "./redis.ts";

test("a test's Redis forgets on restart, freezes, thaws, dies, and leaves nothing behind", async () => {
  let directory: string;
  {
    await using server = await startRedis();
    directory = dirname(new URL(server.url).pathname);
    const redis = await connectRedis(server.url, "request");
    redis.on("error", () => {});
    await redis.set("a", "1");

    server.pause();
    await assert.rejects(redis.get("a"), /timed out/);
    server.resume();
    assert.equal(await redis.get("a"), "1");

    await server.kill();
    redis.disconnect();
    await assert.rejects(connectRedis(server.url, "request"), /no Redis at/);

    await server.restartEmpty();
    const again = await connectRedis(server.url, "request");
    assert.equal(await again.get("a"), null);
    again.disconnect();
    await server.stop();
  }
  assert.equal(existsSync(directory), false);
});

test("a server that was disposed of serves the next caller, as it was at its start", async () => {
  let url: string;
  {
    await using server = await startRedis();
    url = server.url;
    const redis = await connectRedis(url, "request");
    redis.on("error", () => {});
    await redis.set("a", "1");
    await redis.config("SET", "maxmemory", "1gb");
    await redis.eval("return 1", 0);
    redis.disconnect();
  }
  await using next = await startRedis();
  assert.equal(next.url, url);
  const redis = await connectRedis(url, "request");
  assert.equal(await redis.dbsize(), 0);
  assert.deepEqual(await redis.config("GET", "maxmemory"), ["maxmemory", "0"]);
  assert.doesNotMatch(await redis.info("commandstats"), /cmdstat_eval/);
  redis.disconnect();
});
