import assert from "node:assert/strict";
import { test } from "node:test";
import { allowsAddress } from "#access/addresses.ts";
import type { KeyRecord } from "#access/record.ts";
import { tagsIn } from "#access/tags.ts";
import { isNetwork } from "#service/networks.ts";

const record: KeyRecord = { id: "key_1", name: "n", group: "g", hint: "h", createdAt: 1 };

test("addresses and networks are recognised", () => {
  for (const text of ["10.1.2.3", "10.0.0.0/8", "0.0.0.0/0", "::1", "fd00::/8", "::ffff:1.2.3.4"])
    assert.ok(isNetwork(text), text);
  for (const text of [
    "",
    "10.1.2",
    "10.0.0.0/33",
    "fd00::/129",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "fe80::1%eth0",
    "a.example",
  ])
    assert.ok(!isNetwork(text), text);
});

test("a key without addresses may be used from anywhere, others only from theirs, in every spelling", () => {
  assert.ok(allowsAddress(record, "192.0.2.1"));
  const restricted = { ...record, addresses: ["192.0.2.0/28", "2001:db8::/32", "203.0.113.9"] };
  for (const address of ["192.0.2.15", "::ffff:192.0.2.15", "2001:db8:1::1", "203.0.113.9"])
    assert.ok(allowsAddress(restricted, address), address);
  for (const address of ["192.0.2.16", "::ffff:192.0.2.16", "2001:db9::1", "203.0.113.8", "", "x"])
    assert.ok(!allowsAddress(restricted, address), address);
  assert.ok(!allowsAddress({ ...record, addresses: [] }, "192.0.2.1"));
});

test("tags of a header are bounded", () => {
  assert.deepEqual(tagsIn(" team-a , ,nightly"), { tags: ["team-a", "nightly"], isCut: false });
  assert.deepEqual(tagsIn(Array(50).fill("x").join()), { tags: Array(10).fill("x"), isCut: true });
  assert.deepEqual(tagsIn("x".repeat(500)), { tags: ["x".repeat(60)], isCut: true });
});
