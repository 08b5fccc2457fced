/** The answers of the API on usage. */
import type { AnswerOf } from "#api/operation.ts";
import type { usageOperations } from "#api/usage.ts";

export type UsageSums = AnswerOf<(typeof usageOperations)["sumUsage"]>;
export type SumRow = UsageSums["rows"][number];
export type Sums = UsageSums["total"];
export type UsageRecord = AnswerOf<(typeof usageOperations)["getUsage"]>;
