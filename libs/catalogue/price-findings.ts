/**
 * Checks prices for what the schema cannot express: mistakes that would make an answer cheaper or
 * dearer than its reader expects.
 */
import { nanoOf, nanoPerUnit, ppmOf, ppmPerUnit } from "#ledger/money.ts";
import type { Prices } from "#ledger/prices.ts";
import type { Finding, Path } from "./fault.ts";

/** All mistakes in these prices, which stand at `path`. */
export function priceFindingsOf(prices: Prices, path: Path): Finding[] {
  const { images, tiers, serviceTiers, periods = [], ...single } = prices;
  return [
    ...amountFindingsOf(single, path),
    ...tierFindingsOf(tiers, [...path, "tiers"]),
    ...imageFindingsOf(prices, [...path, "images"]),
    ...periods.flatMap((period, index) => periodFindingsOf(period, [...path, "periods", index])),
    ...Object.entries(serviceTiers).flatMap(([name, ratio]) => ratioFindingsOf(ratio, [...path, "serviceTiers", name])),
  ];
}

/** Costs are computed in whole parts per million of a ratio. */
export const ratioFindingsOf = (ratio: number, path: Path): Finding[] =>
  ppmOf(ratio) / ppmPerUnit === ratio ? [] : [{ path, text: "has more than six decimals" }];

const amountFindingsOf = (amounts: object, path: Path): Finding[] =>
  Object.entries(amounts).flatMap(([name, amount]: [string, unknown]) =>
    typeof amount !== "number" || nanoOf(amount) / nanoPerUnit === amount
      ? []
      : [{ path: [...path, name], text: "has more than nine decimals" }],
  );

const tierFindingsOf = (tiers: Prices["tiers"], path: Path): Finding[] =>
  tiers.flatMap(({ aboveInputTokens, ...amounts }, index): Finding[] => {
    const twin = tiers.findIndex((tier) => tier.aboveInputTokens === aboveInputTokens);
    const at = [...path, index];
    if (twin < index) return [{ path: [...at, "aboveInputTokens"], text: `is already the bound of tiers[${twin}]` }];
    if (Object.keys(amounts).length === 0) return [{ path: at, text: "changes no price" }];
    return amountFindingsOf(amounts, at);
  });

function periodFindingsOf(period: NonNullable<Prices["periods"]>[number], path: Path): Finding[] {
  const { from, until, hours, ratio, ...amounts } = period;
  for (const [name, moment] of Object.entries({ from, until }))
    if (moment !== undefined && Number.isNaN(Date.parse(moment)))
      return [{ path: [...path, name], text: "is not a date or a moment in UTC" }];
  if (from !== undefined && until !== undefined && Date.parse(from) >= Date.parse(until))
    return [{ path: [...path, "until"], text: "is not after `from`" }];
  if (hours?.slice(0, 5) === hours?.slice(6) && hours !== undefined)
    return [{ path: [...path, "hours"], text: "is empty: it ends when it begins" }];
  if (ratio === undefined && Object.keys(amounts).length === 0) return [{ path, text: "changes no price" }];
  return [
    ...amountFindingsOf(amounts, path),
    ...(ratio === undefined ? [] : ratioFindingsOf(ratio, [...path, "ratio"])),
  ];
}

function imageFindingsOf({ images, outputPerMillion }: Prices, path: Path): Finding[] {
  const findings = images.flatMap(({ size, quality, price }, index): Finding[] => {
    const at = [...path, index];
    const before = images.findIndex((other) => (other.size ?? size) === size && (other.quality ?? quality) === quality);
    if (before < index)
      return [
        { path: at, text: `never applies, because images[${before}] matches the same images; put it before that` },
      ];
    return amountFindingsOf({ price }, at);
  });
  const isForAll = images.some(({ size, quality }) => size === undefined && quality === undefined);
  if (images.length > 0 && !isForAll && outputPerMillion === 0)
    findings.push({
      path,
      text: "has no price for other sizes and qualities, which would be free; add a last entry with `price` alone, or outputPerMillion",
    });
  return findings;
}
