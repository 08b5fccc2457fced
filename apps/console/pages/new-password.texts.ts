import { translated } from "../app/texts.ts";

export const useNewPasswordTexts = translated({
  en: { help: "At least 12 characters. All your sessions end.", done: "The password is set." },
  zh: { help: "至少 12 个字符。您的全部会话将结束。", done: "密码已设置。" },
});
