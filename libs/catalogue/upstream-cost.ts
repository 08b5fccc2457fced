/** The operator's cost of an answer. */
import type { Usage } from "#dialects/usage.ts";
import { ppmPerUnit } from "#ledger/money.ts";
import { costOf, unitPricesOf, unpricedUnitsOf, wholeOf } from "#ledger/prices.ts";
import type { CatalogueModel } from "./catalogue.ts";

type PricedTarget = Pick<CatalogueModel["route"][number], "upstream" | "model" | "prices">;

/**
 * In nano-units; undefined where the catalogue does not state a price that this target asks. `at`
 * is when the request was received, in epoch milliseconds.
 */
export function upstreamCostOf(
  model: { readonly route: readonly PricedTarget[]; readonly mirror?: PricedTarget | undefined } | undefined,
  { upstream, target: name }: { readonly upstream: string; readonly target: string },
  usage: Usage,
  at: number,
): bigint | undefined {
  const targets = model && [...model.route, ...(model.mirror === undefined ? [] : [model.mirror])];
  const prices = targets?.find((target) => target.upstream === upstream && target.model === name)?.prices;
  const unitPrices = prices && unitPricesOf(prices, usage, at);
  if (unitPrices === undefined || unpricedUnitsOf(unitPrices).some((kind) => wholeOf(kind) === undefined))
    return undefined;
  return costOf(unitPrices, usage, ppmPerUnit);
}
