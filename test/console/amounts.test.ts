/** Amounts of money, also where they or a part of them are unknown, on every page. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { amountsIn, precisionOf, sumOf } from "../../apps/console/parts/amounts.ts";

const amounts = amountsIn("USD", {
  money: (amount, currency) => `${currency} ${Number(amount).toFixed(2)}`,
  exactMoney: (amount, currency) => `${currency} ${amount}`,
});

test("an unknown amount is a dash, zero is zero, and a lower bound says so", () => {
  for (const unknown of [null, undefined]) {
    assert.equal(amounts.rounded(unknown), "–");
    assert.equal(amounts.exact(unknown, "atLeast"), "–");
  }
  assert.equal(amounts.rounded("0"), "USD 0.00");
  assert.equal(amounts.rounded(0.5), "USD 0.50");
  assert.equal(amounts.rounded("-1.234", "approximate"), "≈\u202fUSD -1.23");
  assert.equal(amounts.exact("1.234567890123456789", "atLeast"), "≥\u202fUSD 1.234567890123456789");
});

test("the precision of a sum follows from what it leaves out", () => {
  const cases: [sums: Parameters<typeof precisionOf>[0], precisions: Record<string, string>][] = [
    [{}, { cost: "exact", upstreamCost: "exact", margin: "exact", cacheSaving: "exact", tokens: "exact" }],
    [{ isCostPartial: true }, { cost: "atLeast", upstreamCost: "exact", margin: "approximate", tokens: "exact" }],
    [{ isUpstreamCostPartial: true }, { cost: "exact", upstreamCost: "atLeast", margin: "approximate" }],
    [
      { isCostPartial: true, isUpstreamCostPartial: true },
      { cost: "atLeast", upstreamCost: "atLeast" },
    ],
  ];
  for (const [sums, precisions] of cases)
    for (const [name, precision] of Object.entries(precisions))
      assert.equal(precisionOf(sums, name), precision, `${name} of ${JSON.stringify(sums)}`);
  assert.equal(precisionOf({ isCostPartial: true }), "atLeast", "the cost, where no sum is named");
});

test("sums over known and unknown amounts are lower bounds, and unknown without a known one", () => {
  const [exact, atLeast, approximate] = ["exact", "atLeast", "approximate"] as const;
  const [one, third] = [
    { amount: "0.1", precision: exact },
    { amount: "0.200000000000000003", precision: exact },
  ];
  const unknown = { amount: null, precision: exact };
  assert.deepEqual(sumOf([]), { amount: null, precision: exact });
  assert.deepEqual(sumOf([unknown]), { amount: null, precision: atLeast });
  assert.deepEqual(sumOf([one, third]), { amount: "0.3", precision: exact });
  assert.deepEqual(sumOf([one, unknown]), { amount: "0.1", precision: atLeast });
  assert.deepEqual(sumOf([one, { amount: "2", precision: atLeast }]), { amount: "2.1", precision: atLeast });
  assert.deepEqual(sumOf([{ amount: "-2", precision: approximate }, unknown]).precision, approximate);
});

/**
 * Each module of the console that shows amounts, and when one of them is unknown or a bound.
 * `never`: prices and limits that somebody has set, and sums of which every part is known.
 */
const modules: Record<string, string> = {
  "catalogue/add-upstream.tsx": "the list has no price of a model",
  "catalogue/cost-estimates.tsx": "never: a note says what the estimate leaves out",
  "catalogue/prices-tab.tsx": "never: prices that differ",
  "catalogue/route-cards.tsx": "a target without prices",
  "catalogue/trial.tsx": "units without a price, a target without prices",
  "pages/batch.tsx": "units without a price",
  "pages/batches.tsx": "units without a price",
  "pages/catalogue-model.tsx": "never: prices of a period",
  "pages/catalogue.tsx": "an entry without prices",
  "pages/key.tsx": "units without a price",
  "pages/keys.tsx": "units without a price",
  "pages/model.tsx": "a price that the model has not, units without a price",
  "pages/models.tsx": "a price that the model has not",
  "pages/request.tsx": "units without a price, a target without prices",
  "pages/requests.tsx": "units without a price",
  "pages/start.tsx": "before the sums are there, units without a price",
  "pages/statement.tsx": "units without a price",
  "parts/key-limits.tsx": "units without a price; never: limits",
  "parts/measure-format.ts": "sums without a known part, units without a price, targets without prices",
  "parts/models.tsx": "a price that the model has not",
  "parts/usage-table.tsx": "sums without a known part, units without a price, targets without prices",
  "playground/image-panel.tsx": "a look without a price, and until the ledger has the record",
  "playground/run-view.tsx": "until the ledger has the record",
};

test("every module that shows amounts is in the table, and writes them by the one helper", () => {
  const root = join(import.meta.dirname, "../../apps/console");
  const shown = globSync("**/*.{ts,tsx}", { cwd: root })
    .filter((file) => !/^(node_modules|dist)|^parts\/(amounts\.ts|facts\.tsx|table\.tsx)$|^app\/|texts\.ts$/.test(file))
    .map((file) => [file, readFileSync(join(root, file), "utf8")] as const);
  const own = shown.filter(([, text]) => /\b(?:money|exactMoney)\([^)]*currency|style: "currency"/.test(text));
  assert.deepEqual(own, []);
  const users = shown.filter(([, text]) =>
    /useMoney\(\)|<(?:Money|Price|OutputPrice|ImagePrice)\b|c\.money\(/.test(text),
  );
  assert.deepEqual(users.map(([file]) => file).sort(), Object.keys(modules).sort());
});
