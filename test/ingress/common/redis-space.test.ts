import assert from "node:assert/strict";
import { test } from "node:test";
import type { Redis } from "#service/redis.ts";
import { RedisSpace } from "../../../apps/ingress/common/redis-space.ts";
import { partOf } from "../../support/part-of.ts";

test("a Redis that does not answer is asked again, and does not count as full", async () => {
  let isAway = true;
  const info = async () => {
    if (isAway) throw new Error("Command timed out");
    return "used_memory:10\nmaxmemory:100\n";
  };
  const space = new RedisSpace(partOf<Redis>({ info }), { now: () => 0, epoch: () => 0 });
  await assert.rejects(space.hasSpace(), /timed out/);
  isAway = false;
  assert.equal(await space.hasSpace(), true);
});
