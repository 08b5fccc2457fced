import { translated } from "../app/texts.ts";

export const useStatementTexts = translated({
  en: {
    title: "Statement of {account}",
    about: "{month}, in UTC",
    soFar: "so far",
    print: "Print",
    month: "Month",
    byModel: "By model",
    byKey: "By key",
    total: "Total",
    nothing: "Nothing was used in this month.",
    madeAt: "Made {time} from the ledger; amounts in {currency}.",
  },
  zh: {
    title: "{account} 的对账单",
    about: "{month}（UTC）",
    soFar: "截至目前",
    print: "打印",
    month: "月份",
    byModel: "按模型",
    byKey: "按密钥",
    total: "合计",
    nothing: "本月没有用量。",
    madeAt: "{time} 根据账本生成；金额单位为 {currency}。",
  },
});
