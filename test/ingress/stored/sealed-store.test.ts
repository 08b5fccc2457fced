import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyError } from "fastify";
import { failureOf, unavailable } from "../../../apps/ingress/common/failures.ts";
import { Sealing } from "../../../apps/ingress/common/sealing.ts";
import type { BoundedStore, ValueToStore } from "../../../apps/ingress/stored/bounded-store.ts";
import { SealedStore } from "../../../apps/ingress/stored/sealed-store.ts";
import { partOf } from "../../support/part-of.ts";

const owner = { keyId: "key_1", sealing: Sealing.of("sk-1", "key_1") };
const timedOut = () => Promise.reject(new Error("Command timed out"));

/** A store that does what the first put and the first remove ask, but does not answer them. */
function silentOnce(): BoundedStore {
  let stored: { value: Buffer; version: number } | undefined;
  let puts = 0;
  let removals = 0;
  return partOf<BoundedStore>({
    async put(_keyId: string, { value, replaces = -1 }: ValueToStore) {
      if (replaces >= 0 && replaces !== (stored?.version ?? 0)) return "conflict";
      stored = { value, version: (stored?.version ?? 0) + 1 };
      return puts++ === 0 ? timedOut() : stored.version;
    },
    read: async () => [stored],
    async remove() {
      const wasStored = stored !== undefined;
      stored = undefined;
      return removals++ === 0 ? timedOut() : wasStored;
    },
  });
}

const storeThatWaits = (redisWaitMs: number) =>
  new SealedStore(silentOnce(), { clock: { now: () => 0, epoch: () => 0 }, redisWaitMs });

test("a change that Redis made without an answer is made once, and is no conflict", async () => {
  const store = storeThatWaits(1);
  const value = { id: "conv_1", value: Buffer.from("first"), replaces: 0 };
  assert.equal(await store.put(owner, value), 1);
  assert.equal((await store.read(owner, ["conv_1"]))[0]?.value.toString(), "first");
  assert.equal(await store.put(owner, { ...value, value: Buffer.from("second") }), "conflict");
  assert.equal(await store.remove(owner, "conv_1"), true);
  assert.equal(await store.remove(owner, "conv_1"), false);
});

test("without time to wait, the first failure makes the request unavailable", async () => {
  const put = storeThatWaits(0).put(owner, { id: "conv_1", value: Buffer.from("first") });
  await assert.rejects(put, (error: FastifyError) => failureOf(error) === unavailable);
});
