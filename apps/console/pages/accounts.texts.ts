import { translated } from "../app/texts.ts";

export const useAccountsTexts = translated({
  en: {
    about: "Keys, people and usage belong to an account.",
    create: "Create account",
    idHelp: "In usage records and limits; it cannot be changed. Empty: a random one.",
    active: "Active",
    disabled: "Disabled",
    none: "You belong to no account",
    noneWhy: "An owner or an operator can invite you with a link.",
  },
  zh: {
    about: "密钥、人员和用量都属于某个账户。",
    create: "创建账户",
    idHelp: "用于用量记录和限额，之后无法修改。留空则随机生成。",
    active: "正常",
    disabled: "已停用",
    none: "您不属于任何账户",
    noneWhy: "所有者或运维人员可以通过链接邀请您。",
  },
});
