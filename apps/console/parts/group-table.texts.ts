import { translated } from "../app/texts.ts";

export const useGroupTableTexts = translated({
  en: {
    title: "Groups and models",
    about: "A key may use the models of its group. The factor behind a group's name multiplies the prices.",
    may: "Yes",
    mayNot: "No",
    count: "{models} models",
  },
  zh: {
    title: "分组与模型",
    about: "密钥可使用其分组的模型。分组名称后的系数会乘以价格。",
    may: "可以",
    mayNot: "不可以",
    count: "{models} 个模型",
  },
});
