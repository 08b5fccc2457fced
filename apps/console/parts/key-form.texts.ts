import { translated } from "../app/texts.ts";

export const useKeyFormTexts = translated({
  en: {
    edit: "Change key",
    nameHelp: "For people, such as the program that uses the key.",
    groupHelp: "Decides which models the key may use, and their prices.",
    expiresHelp: "Empty: never.",
    limitsHelp: "Empty: the limit of the group.",
    access: "Models, addresses and tags",
    modelsHelp: "Ids, or prefixes that end with *. Empty: all models of the group.",
    addressesHelp: "Addresses or networks that may use the key, such as 203.0.113.0/24. Empty: any.",
    originsHelp: "Pages that may use the key in a browser, such as https://app.example.com. Empty: those of the group.",
    tagsHelp: "In every usage record of the key.",
    priorityHelp: "Which requests go first on a busy queue.",
    ofGroup: "As its group",
  },
  zh: {
    edit: "修改密钥",
    nameHelp: "供人识别，例如使用此密钥的程序。",
    groupHelp: "决定密钥可用的模型及其价格。",
    expiresHelp: "留空表示永不过期。",
    limitsHelp: "留空则使用分组的限额。",
    access: "模型、地址与标签",
    modelsHelp: "模型 ID，或以 * 结尾的前缀。留空表示分组的全部模型。",
    addressesHelp: "允许使用密钥的地址或网段，例如 203.0.113.0/24。留空表示不限。",
    originsHelp: "允许在浏览器中使用密钥的网页，例如 https://app.example.com。留空则使用分组的设置。",
    tagsHelp: "写入此密钥的每条用量记录。",
    priorityHelp: "队列繁忙时哪些请求先执行。",
    ofGroup: "与分组相同",
  },
});
