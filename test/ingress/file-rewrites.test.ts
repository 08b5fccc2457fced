import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import pino from "pino";
import { keyspaceOf } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { FileRewrites } from "../../apps/ingress/file-rewrites.ts";
import { startRedis } from "../support/redis.ts";

const everyMs = 60_000;
const keyspace = keyspaceOf("test");
const log = pino({ level: "silent" });

async function openFile(redis: Redis, directory: string): Promise<{ holds(text: string): Promise<boolean> }> {
  await redis.config("SET", "appendonly", "yes");
  while (!/aof_rewrite_in_progress:0[\s\S]*aof_rewrite_scheduled:0/.test(await redis.info("persistence")))
    await delay(10);
  const folder = join(directory, "appendonlydir");
  return {
    holds: async (text) => {
      for (const name of await readdir(folder))
        if ((await readFile(join(folder, name)).catch(() => Buffer.alloc(0))).includes(text)) return true;
      return false;
    },
  };
}

test("ingresses rewrite the append-only file once in each interval, which removes a body that Redis has deleted", {
  timeout: 60_000,
}, async () => {
  await using server = await startRedis();
  const redis = await connectRedis(server.url, "patient");
  const [, directory] = (await redis.config("GET", "dir")) as string[];
  const file = await openFile(redis, directory as string);
  const rewritesOf = async () => Number(/aof_rewrites:(\d+)/.exec(await redis.info("persistence"))?.[1]);
  try {
    await redis.set(keyspace.body("gen_1"), "a secret prompt");
    await redis.unlink(keyspace.body("gen_1"));
    assert.equal(await file.holds("a secret prompt"), true);

    const before = await rewritesOf();
    const ingresses = [1, 2, 3].map(() => new FileRewrites({ redis, keyspace, everyMs, log }));
    for (const ingress of ingresses) await ingress.rewriteIfDue();
    while (await file.holds("a secret prompt")) await delay(10);
    for (const ingress of ingresses) await ingress.rewriteIfDue();
    assert.equal(await rewritesOf(), before + 1);

    assert.ok((await redis.pttl(keyspace.fileRewritten)) > everyMs / 2);
    await redis.del(keyspace.fileRewritten);
    for (const ingress of ingresses) await ingress.rewriteIfDue();
    while ((await rewritesOf()) < before + 2) await delay(10);
  } finally {
    redis.disconnect();
  }
});

test("a Redis without an append-only file is not asked to rewrite it", async () => {
  await using server = await startRedis();
  const redis = await connectRedis(server.url, "patient");
  try {
    await new FileRewrites({ redis, keyspace, everyMs, log }).rewriteIfDue();
    assert.equal(await redis.exists(keyspace.fileRewritten), 0);
    assert.match(await redis.info("commandstats"), /cmdstat_info/);
    assert.doesNotMatch(await redis.info("commandstats"), /bgrewriteaof/);
  } finally {
    redis.disconnect();
  }
});
