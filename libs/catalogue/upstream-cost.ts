/** The operator's cost of an answer. */
import type { Usage } from "#dialects/usage.ts";
import { ppmPerUnit } from "#ledger/money.ts";
import { costOf, unitPricesOf } from "#ledger/prices.ts";
import type { CatalogueModel } from "./catalogue.ts";

/**
 * In nano-units; undefined where the catalogue does not state the prices of this target. `at` is
 * when the request was received, in epoch milliseconds.
 */
export function upstreamCostOf(
  model: CatalogueModel | undefined,
  { upstream, target: name }: { readonly upstream: string; readonly target: string },
  usage: Usage,
  at: number,
): bigint | undefined {
  const targets = model && [...model.route, ...(model.mirror === undefined ? [] : [model.mirror])];
  const prices = targets?.find((target) => target.upstream === upstream && target.model === name)?.prices;
  return prices && costOf(unitPricesOf(prices, usage, at), usage, ppmPerUnit);
}
