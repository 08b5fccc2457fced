import { translated } from "./texts.ts";

export const useShellTexts = translated({
  en: {
    batches: "Batches",
    files: "Files",
    webhooks: "Webhooks",
    skip: "To the content",
    navigation: "Pages",
    menu: "Menu",
    alerts: "Alerts of the last week: {count}",
    scheme: "Colours",
    light: "Light",
    dark: "Dark",
    auto: "As the system",
    language: "Language",
    reference: "API reference",
  },
  zh: {
    batches: "批处理",
    files: "文件",
    webhooks: "Webhook",
    skip: "跳到内容",
    navigation: "页面",
    menu: "菜单",
    alerts: "最近一周的警报：{count}",
    scheme: "颜色",
    light: "浅色",
    dark: "深色",
    auto: "跟随系统",
    language: "语言",
    reference: "API 参考",
  },
});
