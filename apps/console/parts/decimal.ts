/** Exact arithmetic with the API's amounts: decimal texts with up to nine decimals. */

const decimals = 9;

/** In billionths. */
export function nanoOf(amount: string): bigint {
  const [, sign = "", whole = "0", fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(amount) ?? [];
  const value = BigInt(whole + fraction.padEnd(decimals, "0").slice(0, decimals));
  return sign === "-" ? -value : value;
}

/** A decimal text without trailing zeros. The amount has `digits` decimals. */
export function decimalOf(amount: bigint, digits = decimals): string {
  const text = (amount < 0n ? -amount : amount).toString().padStart(digits + 1, "0");
  const fraction = text.slice(text.length - digits).replace(/0+$/, "");
  return `${amount < 0n ? "-" : ""}${text.slice(0, text.length - digits)}${fraction && `.${fraction}`}`;
}
