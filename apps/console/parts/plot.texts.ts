import { translated } from "../app/texts.ts";

export const usePlotTexts = translated({
  en: { figures: "Show figures", hideFigures: "Hide figures", total: "Whole time", none: "No usage in this time" },
  zh: { figures: "显示数据", hideFigures: "隐藏数据", total: "整个时段", none: "此时段没有用量" },
});
