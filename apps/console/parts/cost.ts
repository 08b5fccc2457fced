/**
 * How the cost of a record was computed: exactly, and rounded once at the end, as the gateway does
 * it.
 */
import { decimalOf, nanoOf } from "./decimal.ts";
import type { UsageRecord } from "./usage-types.ts";

export type Priced = Pick<UsageRecord, "tokens" | "images" | "price"> & {
  units?: readonly UsageRecord["units"][number][];
};
type Unit = UsageRecord["units"][number];

const costKinds = [
  "input",
  "cacheRead",
  "cacheWrite",
  "audioInput",
  "output",
  "reasoning",
  "audioOutput",
  "request",
  "image",
] as const;
type CostKind = (typeof costKinds)[number];

export interface CostLine {
  kind: CostKind | Unit["kind"];
  /** The price is of one, not of a million. */
  isEach: boolean;
  /** Tokens, images, other units, or one request. */
  count: number;
  /** A decimal text. Undefined if nothing was billed, or the price is unknown. */
  unitPrice: string | undefined;
  /** Count times price, in full. */
  amount: string | undefined;
}

export interface CostSteps {
  lines: CostLine[];
  /** The sum of the lines, in full. */
  sum: string;
  groupRatio: number;
  serviceRatio: number;
  /** Sum times ratios, in full. */
  product: string;
  /** Rounded half up to nine decimals. */
  cost: string;
}

const million = 1_000_000n;
const ppmOf = (ratio: number): bigint => BigInt(Math.round(ratio * 1_000_000));

/** Tokens by kind, without overlap: a kind that has a price of its own is not part of another. */
function countsOf({ tokens, images, units = [] }: Priced): Record<CostKind, number> {
  const { input, cacheRead, cacheWrite, audioInput, output, reasoning, audioOutput } = tokens;
  const apart = (whole: Unit["partOf"]) =>
    units.reduce((sum, { partOf, count, unitPrice }) => sum + (partOf === whole && unitPrice !== null ? count : 0), 0);
  return {
    input: Math.max(0, input - cacheRead - cacheWrite - audioInput - apart("input")),
    cacheRead: cacheRead - apart("cacheRead"),
    cacheWrite: cacheWrite - apart("cacheWrite"),
    audioInput,
    output: Math.max(0, output - reasoning - audioOutput - apart("output")),
    reasoning,
    audioOutput,
    request: 1,
    image: images,
  };
}

const priceNames = {
  input: "inputPerMillion",
  cacheRead: "cacheReadPerMillion",
  cacheWrite: "cacheWritePerMillion",
  audioInput: "audioInputPerMillion",
  output: "outputPerMillion",
  reasoning: "reasoningPerMillion",
  audioOutput: "audioOutputPerMillion",
  request: "perRequest",
  image: "perImage",
} as const satisfies Record<CostKind, keyof NonNullable<Priced["price"]>>;

/** The counts of a record, each with its price if it was billed. */
export function linesOf(record: Priced): CostLine[] {
  const { price } = record;
  const counts = countsOf(record);
  const lines = costKinds.flatMap((kind): CostLine[] => {
    const count = counts[kind];
    const unitPrice = price?.[priceNames[kind]];
    if (count === 0 || (kind === "request" && (unitPrice === undefined || nanoOf(unitPrice) === 0n))) return [];
    return [lineOf(kind, count, unitPrice, kind === "request" || kind === "image")];
  });
  const others = (record.units ?? []).flatMap(({ kind, count, partOf, unitPrice }): CostLine[] =>
    // Tokens without a price of their own are in the line of those that contain them; seconds
    // without one are billed as tokens.
    (partOf !== null && unitPrice === null) ||
    (kind === "audioSeconds" && unitPrice !== null && nanoOf(unitPrice) === 0n)
      ? []
      : [lineOf(kind, count, unitPrice ?? undefined, partOf === null)],
  );
  return [...lines, ...others];
}

const lineOf = (kind: CostLine["kind"], count: number, unitPrice: string | undefined, isEach: boolean): CostLine => ({
  kind,
  isEach,
  count,
  unitPrice,
  amount: unitPrice && decimalOf(amountOf(count, unitPrice, isEach), 15),
});

/** With fifteen decimals. */
const amountOf = (count: number, unitPrice: string, isEach: boolean): bigint =>
  BigInt(count) * nanoOf(unitPrice) * (isEach ? million : 1n);

/** Undefined if nothing was billed. */
export function costStepsOf(record: Priced): CostSteps | undefined {
  const { price } = record;
  if (price === null) return undefined;
  const lines = linesOf(record);
  const sum = lines.reduce((all, { isEach, count, unitPrice = "0" }) => all + amountOf(count, unitPrice, isEach), 0n);
  const product = sum * ppmOf(price.groupRatio) * ppmOf(price.serviceRatio);
  const divisor = million * million * million;
  return {
    lines,
    sum: decimalOf(sum, 15),
    groupRatio: price.groupRatio,
    serviceRatio: price.serviceRatio,
    product: decimalOf(product, 27),
    cost: decimalOf((product + divisor / 2n) / divisor),
  };
}
