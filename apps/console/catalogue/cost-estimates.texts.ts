import { translated } from "../app/texts.ts";

export const useCostEstimatesTexts = translated({
  en: {
    title: "Usage of the last {days} days",
    billed: "Billed",
    present: "At the present prices",
    proposed: "At the new prices",
    notExact: "Estimates: prices of long prompts, service tiers and other units than tokens are not in these sums.",
  },
  zh: {
    title: "最近 {days} 天的用量",
    billed: "已计费",
    present: "按当前价格",
    proposed: "按新价格",
    notExact: "估算值：不含长提示、服务等级以及令牌以外单位的价格。",
  },
});
