import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { costOf, unitPricesOf } from "#ledger/prices.ts";
import { decodeUsageRecord, encodeUsageRecord } from "#ledger/usage-record.ts";
import { usageRecord } from "../../control/records.ts";
import { moneyOf, pricedUsages, recalculated } from "./priced-records.ts";

test("whatever the prices, tiers, ratios and counts: the cost is exact, rounded once, and follows from the record alone", () => {
  fc.assert(
    fc.property(pricedUsages, (usage) => {
      const { prices, used, groupPpm, cost } = usage;
      assert.equal(costOf(unitPricesOf(prices, used), used, groupPpm), cost);
      const record = usageRecord(moneyOf(usage));
      assert.equal(record.cost, String(cost));
      const read = decodeUsageRecord(JSON.parse(encodeUsageRecord(record)));
      assert.deepEqual(read, record);
      assert.equal(recalculated(record), cost);
    }),
    { numRuns: 3_000 },
  );
});
