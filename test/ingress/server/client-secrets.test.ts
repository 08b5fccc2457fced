import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import type { KeyRecord } from "#access/record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { clientSecretsMax } from "../../../apps/ingress/common/bounds.ts";
import { ClientSecrets } from "../../../apps/ingress/server/client-secrets.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
const secrets = new ClientSecrets(redis, keyspaceOf("test"));
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => redis.flushall());

const record: KeyRecord = { id: "key_1", name: "n", group: "default", hint: "abcd", createdAt: 0 };
const sealed = { keyHash: "hash", model: "m", session: { type: "realtime", instructions: "x" } };
const keysWith = (keyRecord: KeyRecord) => ({
  find: () => undefined,
  look: async (hash: string) => (hash === "hash" ? keyRecord : undefined),
});
const grantOf = (secret: string, keyRecord = record) =>
  secrets.grantOf(["sk-other", secret], keysWith(keyRecord), 1_000);

test("a secret allows what it was created for, until it expires", async () => {
  const secret = (await secrets.create("key_1", sealed, 500)) as string;
  assert.deepEqual(await grantOf(secret), { record, model: "m", session: sealed.session });
  await until("it expires", async () => (await grantOf(secret)) === undefined);
});

test("the secrets of a key that is revoked or has expired allow nothing", async () => {
  const secret = (await secrets.create("key_1", sealed, 10_000)) as string;
  assert.equal(await grantOf(secret, { ...record, revokedAt: 1 }), undefined);
  assert.equal(await grantOf(secret, { ...record, expiresAt: 999 }), undefined);
});

test("a key may have so many secrets, and others again once those expired", async () => {
  const create = (lifeMs: number) => secrets.create("key_1", sealed, lifeMs);
  await Promise.all(Array.from({ length: clientSecretsMax - 1 }, () => create(60_000)));
  assert.notEqual(await create(300), undefined);
  assert.equal(await create(300), undefined);
  assert.notEqual(await secrets.create("key_2", sealed, 300), undefined);
  await until("one has expired", async () => (await create(300)) !== undefined);
});
