/** How amounts of money are written, also where they or a part of them are unknown. */
import { decimalOf, nanoOf } from "./decimal.ts";
import type { Sums } from "./usage-types.ts";

type Amount = string | number | null | undefined;
/** `atLeast`: an unknown part is left out. `approximate`: that part may be of either sign. */
export type Precision = "exact" | "atLeast" | "approximate";

const marks: Record<Precision, string> = { exact: "", atLeast: "≥\u202f", approximate: "≈\u202f" };

export interface Amounts {
  /** Rounded for reading. */
  rounded(amount: Amount, precision?: Precision): string;
  /** Every digit. */
  exact(amount: Amount, precision?: Precision): string;
}

/** The texts of amounts that the language decides. */
interface MoneyFormats {
  money(amount: string | number, currency: string): string;
  exactMoney(amount: string, currency: string): string;
}

/** In this currency. An amount that is unknown is "–". */
export function amountsIn(currency: string, format: MoneyFormats): Amounts {
  const written =
    (write: (amount: string, currency: string) => string): Amounts["exact"] =>
    (amount, precision = "exact") =>
      amount === null || amount === undefined ? "–" : marks[precision] + write(String(amount), currency);
  return { rounded: written(format.money), exact: written(format.exactMoney) };
}

/** The precision of one of the sums; those that are not named here leave nothing out. */
export function precisionOf(
  sums: Partial<Pick<Sums, "isCostPartial" | "isUpstreamCostPartial">>,
  name = "cost",
): Precision {
  const { isCostPartial, isUpstreamCostPartial } = sums;
  if (name === "margin") return isCostPartial || isUpstreamCostPartial ? "approximate" : "exact";
  return (name === "cost" && isCostPartial) || (name === "upstreamCost" && isUpstreamCostPartial) ? "atLeast" : "exact";
}

/**
 * The sum of amounts; null if none is known. Its precision is that of the least
 * precise one, where an unknown amount leaves a part out.
 */
export function sumOf(amounts: readonly { amount: string | null; precision: Precision }[]) {
  const present = amounts.flatMap(({ amount }) => (amount === null ? [] : [nanoOf(amount)]));
  const precisions = new Set(amounts.map(({ amount, precision }) => (amount === null ? "atLeast" : precision)));
  const precision: Precision = precisions.has("approximate")
    ? "approximate"
    : precisions.has("atLeast")
      ? "atLeast"
      : "exact";
  return { amount: present.length === 0 ? null : decimalOf(present.reduce((sum, each) => sum + each, 0n)), precision };
}
