import { translated } from "../app/texts.ts";

export const useBatchesTexts = translated({
  en: {
    title: "Batches",
    about: "Many requests in one file, which run when there is capacity.",
    batch: "Batch",
    done: "Done",
    failed: "Failed",
    several: "several",
    end: "End",
    expectedEnd: "in {time}",
    none: "No batches yet",
    noneWhy:
      "Upload a file of requests here, or send one with the batch API of OpenAI, Anthropic or Gemini: any model of the catalogue can run it.",
    create: "New batch",
  },
  zh: {
    title: "批处理",
    about: "一个文件中的大量请求，在有空闲容量时运行。",
    batch: "批处理",
    done: "完成",
    failed: "失败",
    several: "多个",
    end: "结束",
    expectedEnd: "{time}后",
    none: "还没有批处理",
    noneWhy: "在此上传请求文件，或使用 OpenAI、Anthropic 或 Gemini 的批处理 API 发送：目录中的任何模型都可以运行。",
    create: "新建批处理",
  },
});
