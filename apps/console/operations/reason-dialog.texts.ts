import { translated } from "../app/texts.ts";

export const useReasonDialogTexts = translated({
  en: {
    reason: "Reason",
    reasonHelp: "Callers see it in the error.",
    ends: "Ends",
    open: "When it is ended here",
    minutes: "In {count} minutes",
    hours: (count: number) => (count === 1 ? "In an hour" : `In ${count} hours`),
  },
  zh: {
    reason: "原因",
    reasonHelp: "调用方会在错误中看到。",
    ends: "结束时间",
    open: "在此处手动结束",
    minutes: "{count} 分钟后",
    hours: (count: number) => `${count} 小时后`,
  },
});
