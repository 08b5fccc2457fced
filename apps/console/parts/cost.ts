/** How the cost of a record was computed: exactly, and rounded once at the end, as the gateway does it. */
import type { Answer } from "../app/call.ts";
import { decimalOf, nanoOf } from "./decimal.ts";

type UsageRecord = Answer<"getUsage">;
export type Priced = Pick<UsageRecord, "tokens" | "images" | "price">;

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
  kind: CostKind;
  /** Tokens, images, or one request. */
  count: number;
  /** A decimal text: of a million tokens, one image or one request. Undefined if nothing was billed. */
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
function countsOf({ tokens, images }: Priced): Record<CostKind, number> {
  const { input, cacheRead, cacheWrite, audioInput, output, reasoning, audioOutput } = tokens;
  return {
    input: Math.max(0, input - cacheRead - cacheWrite - audioInput),
    cacheRead,
    cacheWrite,
    audioInput,
    output: Math.max(0, output - reasoning - audioOutput),
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

const isWhole = (kind: CostKind) => kind === "request" || kind === "image";

/** What was counted, with its price if it was billed. */
export function linesOf(record: Priced): CostLine[] {
  const { price } = record;
  const counts = countsOf(record);
  return costKinds.flatMap((kind): CostLine[] => {
    const count = counts[kind];
    const unitPrice = price?.[priceNames[kind]];
    if (count === 0 || (kind === "request" && (unitPrice === undefined || nanoOf(unitPrice) === 0n))) return [];
    return [{ kind, count, unitPrice, amount: unitPrice && decimalOf(amountOf(kind, count, unitPrice), 15) }];
  });
}

/** With fifteen decimals. */
const amountOf = (kind: CostKind, count: number, unitPrice: string): bigint =>
  BigInt(count) * nanoOf(unitPrice) * (isWhole(kind) ? million : 1n);

/** Undefined if nothing was billed. */
export function costStepsOf(record: Priced): CostSteps | undefined {
  const { price } = record;
  if (price === null) return undefined;
  const lines = linesOf(record);
  const sum = lines.reduce((all, { kind, count, unitPrice = "0" }) => all + amountOf(kind, count, unitPrice), 0n);
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
