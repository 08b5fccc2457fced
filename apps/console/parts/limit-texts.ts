/** The limits of a key, with their names. */
import type { Answer } from "../app/call.ts";

type Limits = NonNullable<Answer<"getKey">["limits"]>;

export const limitNames = [
  "requestsPerMinute",
  "tokensPerMinute",
  "generationsMax",
  "budgetPerDay",
  "budgetPerWeek",
  "budgetPerMonth",
  "budgetTotal",
] as const satisfies (keyof Limits)[];

export const isBudget = (name: keyof Limits): boolean => name.startsWith("budget");
