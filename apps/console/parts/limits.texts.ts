import { translated } from "../app/texts.ts";

export const useLimitsTexts = translated({
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
