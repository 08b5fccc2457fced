import { translated } from "../app/texts.ts";

export const useImagePanelTexts = translated({
  en: {
    prompt: "Prompt",
    size: "Size",
    quality: "Quality",
    count: "Images",
    generate: "Generate",
    waiting: "The model draws …",
    empty: "Describe an image.",
    image: "Generated image {number}",
    time: "Time",
    price: "Price per image",
    download: "Download",
    showRequest: "Request as JSON",
    elsewhere: "Open the image",
  },
  zh: {
    prompt: "提示词",
    size: "尺寸",
    quality: "质量",
    count: "数量",
    generate: "生成",
    waiting: "模型正在绘制 …",
    empty: "描述一幅图像。",
    image: "生成的图像 {number}",
    time: "用时",
    price: "每张价格",
    download: "下载",
    showRequest: "请求的 JSON",
    elsewhere: "打开图像",
  },
});
