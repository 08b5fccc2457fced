import { translated } from "../app/texts.ts";

export const useContentStorageTexts = translated({
  en: {
    title: "Content of requests",
    off: "Not stored. The gateway keeps who asked which model, when and at what cost, but not what was said.",
    on: (days: number) => (days === 1 ? "Stored for one day." : `Stored for ${days} days.`),
    onWhy:
      "Members of this account and operators can read it on the page of a request; the audit log names each reading.",
    store: "Store content",
    end: "Stop storing",
    what: "Prompts, messages, tools and answers of all keys of this account: up to 1 MiB of text of a request, and as much of its answer. Images, sound and files only as their sizes.",
    where: "Encrypted in control's database with a key of this account. Exports of the database do not contain it.",
    who: "Members and owners of this account and operators can read it. Readers cannot.",
    when: "From the next request on. Tell the people who use the keys.",
    days: "Days",
    daysHelp: "From 1 to 90. Older content is deleted.",
    endTitle: "Stop storing content?",
    endWhy: "All stored content of this account is deleted now and cannot be restored. Usage and costs stay.",
  },
  zh: {
    title: "请求内容",
    off: "未保存。网关记录谁在何时使用了哪个模型以及费用，但不记录对话内容。",
    on: (days: number) => `保存 ${days} 天。`,
    onWhy: "此账户的成员和运营者可以在请求页面查看；审计日志会记录每次查看。",
    store: "保存内容",
    end: "停止保存",
    what: "此账户所有密钥的提示、消息、工具和回答：每个请求及其回答各最多 1 MiB 文本。图片、声音和文件只保存大小。",
    where: "使用此账户的密钥加密后存入控制服务的数据库。数据库导出不包含这些内容。",
    who: "此账户的成员和所有者以及运营者可以查看。只读成员不能查看。",
    when: "从下一个请求开始。请告知使用密钥的人员。",
    days: "天数",
    daysHelp: "1 到 90 天。更早的内容会被删除。",
    endTitle: "停止保存内容？",
    endWhy: "此账户已保存的全部内容将立即删除，无法恢复。用量和费用保留。",
  },
});
