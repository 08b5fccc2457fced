/** Fields of usage records that several writers fill in alike. */
import type { UnitKind } from "#dialects/usage.ts";
import type { Bill } from "./bill.ts";
import { ppmPerUnit } from "./money.ts";
import { cacheSavingOf, unitPriceNames } from "./prices.ts";
import type { UsageRecord } from "./usage-record.ts";

const noTokens = {
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  audioInputTokens: 0,
  audioOutputTokens: 0,
};

/** The fields of a record about money, where nothing is billed. */
export const nothingBilled = {
  ...noTokens,
  images: 0,
  imageSize: null,
  imageQuality: null,
  isEstimated: false,
  unitPrices: null,
  priceVersion: null,
  serviceTier: null,
  groupPpm: ppmPerUnit,
  cost: "0",
  upstreamCost: null,
  otherUnits: null,
  cacheSaving: null,
} satisfies Partial<UsageRecord>;

/** The fields of a record that only an answered generation knows. */
export const emptyFields = {
  upstream: null,
  target: null,
  upstreamDialect: null,
  queuedMs: null,
  dispatchedMs: null,
  boundMs: null,
  firstContentMs: null,
  calls: 0,
  chunks: 0,
  bytes: 0,
  upstreamRequestId: null,
  user: null,
  tags: [],
  traceId: null,
  callLog: null,
  batch: null,
  session: null,
} satisfies Partial<UsageRecord>;

/** The fields of a record about money. `upstreamCost` is in nano-units. */
export const billedFields = (
  { usage, unitPrices, groupPpm, priceVersion, cost }: Bill,
  upstreamCost: bigint | undefined,
): Pick<UsageRecord, keyof typeof nothingBilled> => ({
  ...nothingBilled,
  inputTokens: usage.inputTokens,
  cachedInputTokens: usage.cachedInputTokens,
  cacheWriteTokens: usage.cacheWriteTokens,
  outputTokens: usage.outputTokens,
  reasoningTokens: usage.reasoningTokens,
  audioInputTokens: usage.audioInputTokens ?? 0,
  audioOutputTokens: usage.audioOutputTokens ?? 0,
  images: usage.images?.count ?? 0,
  imageSize: usage.images?.size ?? null,
  imageQuality: usage.images?.quality ?? null,
  serviceTier: usage.serviceTier ?? null,
  isEstimated: usage.isEstimated === true,
  unitPrices: unitPriceNames.map((name) => unitPrices[name]),
  priceVersion,
  groupPpm,
  cost: String(cost),
  upstreamCost: upstreamCost === undefined ? null : String(upstreamCost),
  otherUnits:
    usage.units === undefined
      ? null
      : (Object.entries(usage.units) as [UnitKind, number][]).map(([kind, count]) => [
          kind,
          count,
          unitPrices.units?.[kind] ?? null,
        ]),
  cacheSaving:
    usage.cachedInputTokens + usage.cacheWriteTokens === 0 ? null : String(cacheSavingOf(unitPrices, usage, groupPpm)),
});
