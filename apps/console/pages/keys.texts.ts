import { translated } from "../app/texts.ts";

export const useKeysTexts = translated({
  en: {
    title: "Keys",
    about: "A key lets a program use the models of its group.",
    search: "Search by name, id or last characters",
    spentToday: "Today",
    spentMonth: "This month",
    live: "Live",
    overBudget: "Over budget",
    expired: "Expired",
    disabled: "Account disabled",
    none: "No keys yet",
    noneWhy: "Create a key, then call the gateway with it.",
    nothingFound: "No key matches",
  },
  zh: {
    title: "密钥",
    about: "程序凭密钥使用其分组的模型。",
    search: "按名称、ID 或末尾字符搜索",
    spentToday: "今日",
    spentMonth: "本月",
    live: "有效",
    overBudget: "超出预算",
    expired: "已过期",
    disabled: "账户已停用",
    none: "还没有密钥",
    noneWhy: "创建密钥，然后用它调用网关。",
    nothingFound: "没有匹配的密钥",
  },
});
