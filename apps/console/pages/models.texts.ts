import { translated } from "../app/texts.ts";

export const useModelsTexts = translated({
  en: {
    about: "Every client can call every model; the gateway translates between dialects.",
    capability: "Can",
    input: "Input / M",
    output: "Output / M",
    compareHelp: "Choose two to four models to compare.",
    select: "Compare {id}",
    clear: "Clear the filters",
    comparison: "Comparison",
    column: "Compare",
  },
  zh: {
    about: "任何客户端都能调用任何模型，网关负责协议转换。",
    capability: "能力",
    input: "输入 / 百万",
    output: "输出 / 百万",
    compareHelp: "选择两到四个模型进行比较。",
    select: "比较 {id}",
    clear: "清除筛选",
    comparison: "比较",
    column: "比较",
  },
});
