/** The caller's bill for a generation. */
import { serviceTierOf, tierSeparator, type Usage } from "#dialects/usage.ts";
import { ppmOf } from "./money.ts";
import { costOf, type Prices, type UnitPrices, unitPricesOf } from "./prices.ts";

export interface Bill {
  readonly usage: Usage;
  /** The catalogue's id of the model that answered. */
  readonly model: string;
  readonly unitPrices: UnitPrices;
  /** The price factor of the caller's group, in parts per million. */
  readonly groupPpm: number;
  /** The version of the catalogue with these prices. */
  readonly priceVersion: string;
  /** In nano-units. */
  readonly cost: bigint;
}

/** The part of a catalogue that decides the price factor. */
export interface PriceList {
  readonly groups: ReadonlyMap<string, { readonly priceRatio: number }>;
  readonly version: string;
}

/**
 * Applies the prices of the model and of the caller's group. `at` is when the request was received,
 * in epoch milliseconds.
 */
export function priced(
  { groups, version }: PriceList,
  group: string,
  { id, prices }: { readonly id: string; readonly prices: Prices },
  usage: Usage,
  at?: number,
): Bill {
  const groupPpm = ppmOf(groups.get(group)?.priceRatio ?? 1);
  const unitPrices = unitPricesOf(prices, usage, at);
  return { usage, model: id, unitPrices, groupPpm, priceVersion: version, cost: costOf(unitPrices, usage, groupPpm) };
}

/** Prices of a line of a batch are those of the service tier `batch`. */
export const withBatchTier = (usage: Usage, batch: string | undefined): Usage =>
  batch === undefined
    ? usage
    : { ...usage, ...serviceTierOf("batch", ...(usage.serviceTier?.split(tierSeparator) ?? [])) };
