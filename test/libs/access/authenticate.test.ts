import assert from "node:assert/strict";
import { test } from "node:test";
import { authenticate } from "#access/authenticate.ts";
import { createKey } from "#access/key.ts";
import { allowsModel, type KeyRecord, parseRecord, stateOf } from "#access/record.ts";

const now = 1_800_000_000_000;

function keyWith(fields: Partial<KeyRecord> = {}) {
  const { key, hash, hint } = createKey();
  const record: KeyRecord = { id: "key_1", name: "test", group: "default", hint, createdAt: now - 1, ...fields };
  return { key, hash, record };
}

function keysOf(...keys: { hash: string; record: KeyRecord }[]) {
  const byHash = new Map(keys.map(({ hash, record }) => [hash, record]));
  return { find: (hash: string) => byHash.get(hash) };
}

const admittedWith = ({ key, record }: ReturnType<typeof keyWith>) => ({ kind: "admitted", record, apiKey: key });

test("a live key is admitted with its record", () => {
  const live = keyWith();
  assert.deepEqual(authenticate([live.key], keysOf(live), now), admittedWith(live));
});

test("missing, malformed, unknown, expired and revoked keys get the same refusal", () => {
  const expired = keyWith({ expiresAt: now });
  const revoked = keyWith({ revokedAt: now - 5 });
  const keys = keysOf(expired, revoked);
  const refused = [[], [""], ["nonsense"], [createKey().key], [expired.key], [revoked.key]].map((credentials) =>
    authenticate(credentials, keys, now),
  );
  for (const outcome of refused) assert.deepEqual(outcome, { kind: "refused" });
});

test("a key is live until the millisecond of its expiry", () => {
  const key = keyWith({ expiresAt: now });
  assert.equal(authenticate([key.key], keysOf(key), now - 1).kind, "admitted");
  assert.equal(authenticate([key.key], keysOf(key), now).kind, "refused");
  assert.deepEqual(
    [stateOf(key.record, now - 1), stateOf(key.record, now), stateOf({ ...key.record, revokedAt: 1 }, now)],
    ["live", "expired", "revoked"],
  );
});

test("the first live key among several credentials counts, whatever precedes it", () => {
  const [first, second, revoked] = [keyWith({ id: "key_a" }), keyWith({ id: "key_b" }), keyWith({ revokedAt: 1 })];
  const keys = keysOf(first, second, revoked);
  assert.deepEqual(authenticate(["sk-ant-stale", revoked.key, first.key, second.key], keys, now), admittedWith(first));
  assert.deepEqual(authenticate([second.key, first.key], keys, now), admittedWith(second));
});

test("at most eight credentials are checked", () => {
  const live = keyWith();
  let lookups = 0;
  const keys = { find: () => void lookups++ };
  assert.equal(
    authenticate([...Array.from({ length: 20 }, () => createKey().key), live.key], keys, now).kind,
    "refused",
  );
  assert.equal(lookups, 8);
});

test("a key's own list restricts it to model ids and prefixes", () => {
  const { record } = keyWith({ models: ["gpt-5", "vendor/*"] });
  assert.deepEqual(
    ["gpt-5", "gpt-5-mini", "vendor/x", "vendor"].map((id) => allowsModel(record, id)),
    [true, false, true, false],
  );
  assert.ok(allowsModel(keyWith().record, "anything"));
  assert.ok(!allowsModel(keyWith({ models: [] }).record, "anything"));
});

test("a stored record is parsed with fields of later versions, and invalid records are refused", () => {
  const { record } = keyWith({ expiresAt: now, models: ["a"] });
  assert.deepEqual(parseRecord(JSON.stringify({ ...record, budget: 5 })), { ...record, budget: 5 });
  for (const text of [
    "",
    "{",
    "null",
    "[]",
    "{}",
    JSON.stringify({ ...record, id: 1 }),
    JSON.stringify({ ...record, expiresAt: "soon" }),
  ]) {
    assert.equal(parseRecord(text), undefined, text);
  }
});
