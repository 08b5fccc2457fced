/** The limits of a key, in the order in which they are shown. */
import type { Answer } from "../app/call.ts";

export type Limits = NonNullable<Answer<"getKey">["limits"]>;

export const limitNames = [
  "requestsPerMinute",
  "tokensPerMinute",
  "generationsMax",
  "budgetPerDay",
  "budgetPerWeek",
  "budgetPerMonth",
  "budgetTotal",
] as const satisfies (keyof Limits)[];

/** The settings of a key about requests over its limits. */
export const excessNames = ["onLimit", "waitMs"] as const satisfies (keyof Limits)[];

export const isBudget = (name: keyof Limits): boolean => name.startsWith("budget");
