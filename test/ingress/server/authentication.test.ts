/** Keys that an ingress has not heard of yet. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createKey } from "#access/key.ts";
import type { KeyRecord } from "#access/record.ts";
import { RedisUnavailable } from "../../../apps/ingress/common/failures.ts";
import { type KeyDirectory, NewKeys } from "../../../apps/ingress/server/authentication.ts";

const record: KeyRecord = { id: "key_1", name: "n", group: "default", hint: "abcd", createdAt: 0 };

function directory() {
  const redis = new Map<string, KeyRecord>();
  const copy = new Map<string, KeyRecord>();
  const looked: string[] = [];
  const keys: KeyDirectory = {
    find: (hash) => copy.get(hash),
    origins: () => new Set(),
    async look(hash) {
      looked.push(hash);
      const keyRecord = redis.get(hash);
      if (keyRecord !== undefined) copy.set(hash, keyRecord);
      return keyRecord;
    },
  };
  return { keys, redis, copy, looked };
}

const requestWith = (key: string, ip = "192.0.2.1") => ({
  headers: { authorization: `Bearer ${key}` },
  url: "/v1/models",
  ip,
});

test("an unknown key is looked up once it is known to Redis; what is no key never is", async () => {
  const { keys, redis, copy, looked } = directory();
  const newKeys = new NewKeys(keys);
  const { key, hash } = createKey();
  assert.equal(await newKeys.learn(requestWith(key)), false);
  redis.set(hash, record);
  assert.equal(await newKeys.learn(requestWith(key)), true);
  assert.equal(copy.get(hash), record);
  // Known, but expired or revoked.
  assert.equal(await newKeys.learn(requestWith(key)), false);
  for (const text of ["", "sk-other", `${key}x`, `${key.slice(0, -1)}!`])
    assert.equal(await newKeys.learn(requestWith(text)), false);
  assert.deepEqual(looked, [hash, hash]);
});

test("who sends many unknown keys is refused without a look-up; others are not", async () => {
  const { keys, redis, looked } = directory();
  const newKeys = new NewKeys(keys);
  for (let times = 0; times < 50; times++) await newKeys.learn(requestWith(createKey().key));
  assert.ok(looked.length >= 10 && looked.length <= 12, String(looked.length));
  const { key, hash } = createKey();
  redis.set(hash, record);
  assert.equal(await newKeys.learn(requestWith(key, "192.0.2.2")), true);
});

test("while Redis does not answer, an unknown key is not called wrong: the request can be sent again", async () => {
  const { keys } = directory();
  const newKeys = new NewKeys({ ...keys, look: () => Promise.reject(new Error("away")) });
  await assert.rejects(newKeys.learn(requestWith(createKey().key)), RedisUnavailable);
});
