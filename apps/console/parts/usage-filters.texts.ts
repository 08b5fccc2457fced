import { translated } from "../app/texts.ts";

export const useUsageFiltersTexts = translated({
  en: {
    range: "Range",
    today: "Today",
    yesterday: "Yesterday",
    "24h": "24 hours",
    "7d": "7 days",
    "30d": "30 days",
    "last-month": "Last month",
    custom: "Custom",
    from: "From",
    to: "To",
    upstream: "Upstream",
    nothing: "Nothing found",
  },
  zh: {
    range: "时间范围",
    today: "今天",
    yesterday: "昨天",
    "24h": "24 小时",
    "7d": "7 天",
    "30d": "30 天",
    "last-month": "上月",
    custom: "自定义",
    from: "从",
    to: "到",
    upstream: "上游",
    nothing: "没有结果",
  },
});
