/** The limits of a key, with their names. */
import type { Answer } from "../app/call.ts";
import { translated } from "../app/language.tsx";

type Limits = NonNullable<Answer<"getKey">["limits"]>;

export const limitTexts = translated({
  en: {
    requestsPerMinute: "Requests per minute",
    tokensPerMinute: "Tokens per minute",
    generationsMax: "Concurrent requests",
    budgetPerDay: "Budget per day",
    budgetPerWeek: "Budget per week",
    budgetPerMonth: "Budget per month",
    budgetTotal: "Budget in total",
  },
  zh: {
    requestsPerMinute: "每分钟请求数",
    tokensPerMinute: "每分钟令牌数",
    generationsMax: "并发请求数",
    budgetPerDay: "每日预算",
    budgetPerWeek: "每周预算",
    budgetPerMonth: "每月预算",
    budgetTotal: "总预算",
  },
});

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
