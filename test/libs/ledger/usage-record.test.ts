import assert from "node:assert/strict";
import { test } from "node:test";
import { priced } from "#ledger/bill.ts";
import { billedFields } from "#ledger/record-fields.ts";
import { decodeUsageRecord, encodeUsageRecord } from "#ledger/usage-record.ts";
import { usageRecord } from "../../control/records.ts";

test("a record of a writer that does not know the latest fields is valid, and one without other fields is not", () => {
  const record = usageRecord();
  const encoded = JSON.parse(encodeUsageRecord(record)) as unknown[];
  const laterFields = 5;
  for (let absent = 0; absent <= laterFields; absent++)
    assert.deepEqual(decodeUsageRecord(encoded.slice(0, encoded.length - absent)), record, String(absent));
  assert.equal(decodeUsageRecord(encoded.slice(0, -(laterFields + 1))), undefined);
  const called = usageRecord({
    callLog: [
      ["first", "m", 10, 70, 500, "upstream_failed"],
      ["second", "m", 80, 30, null, "answered"],
    ],
  });
  assert.deepEqual(decodeUsageRecord(JSON.parse(encodeUsageRecord(called))), called);
});

test("a record with the highest prices of a catalogue is valid", () => {
  const price = 1_000_000;
  const prices = {
    inputPerMillion: price,
    outputPerMillion: price,
    perRequest: price,
    images: [{ price }],
    tiers: [],
    serviceTiers: {},
  };
  const list = { groups: new Map([["default", { priceRatio: 1 }]]), version: "v1" };
  const usage = {
    inputTokens: 1_000_000,
    cachedInputTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    images: { count: 1 },
  };
  const record = usageRecord(billedFields(priced(list, "default", { id: "m", prices }, usage), undefined));
  assert.equal(record.cost, "3000000000000000");
  assert.deepEqual(decodeUsageRecord(JSON.parse(encodeUsageRecord(record))), record);
});
