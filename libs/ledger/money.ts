/**
 * Money in whole nano-units: 1 unit of the catalogue's currency is 1,000,000,000. Ratios are whole
 * parts per million. Nothing here rounds twice, so sums of records, totals and budgets agree to the
 * last nano-unit.
 */

export const nanoPerUnit = 1_000_000_000;
export const ppmPerUnit = 1_000_000;

/**
 * Nano-units of an amount in units, such as a price of the catalogue. Exact for up to nine decimals
 * and amounts up to 1,000,000.
 */
export const nanoOf = (units: number): number => Math.round(units * nanoPerUnit);

/** Parts per million of a ratio with up to six decimals. */
export const ppmOf = (ratio: number): number => Math.round(ratio * ppmPerUnit);

/** Divides and rounds half up. Neither number may be negative. */
export const dividedBy = (amount: bigint, divisor: bigint): bigint => (amount + divisor / 2n) / divisor;

/**
 * A decimal number of units with up to nine decimals and without trailing zeros, such as "0.0375"
 * or "-2".
 */
export const unitsOf = (nano: bigint): string => decimalOf(nano, 9);

/**
 * The amount divided by ten to the power of `decimals`, as a decimal number without trailing zeros.
 */
export function decimalOf(amount: bigint, decimals: number): string {
  const isNegative = amount < 0n;
  const digits = (isNegative ? -amount : amount).toString().padStart(decimals + 1, "0");
  const fraction = digits.slice(-decimals).replace(/0+$/, "");
  return `${isNegative ? "-" : ""}${digits.slice(0, -decimals)}${fraction && `.${fraction}`}`;
}
