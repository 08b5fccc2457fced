import { translated } from "../app/texts.ts";
import { actionTexts } from "./audit-actions.texts.ts";

export const useAuditTexts = translated({
  en: {
    words: (action: string): string => actionTexts.en[action] ?? action,
    from: "From day",
    to: "To day",
    onlyActor: "Only of {name}",
    onlySubject: "Only {name}",
    about: "Every change: who, what, before and after, from where.",
    action: "Action",
    actor: "Who",
    subject: "What",
    details: "Before and after",
    before: "Before",
    after: "After",
    nothing: "Nothing",
    none: "No entry matches",
    close: "Close",
  },
  zh: {
    words: (action: string): string => actionTexts.zh[action] ?? action,
    from: "起始日期",
    to: "截止日期",
    onlyActor: "仅 {name}",
    onlySubject: "仅 {name}",
    about: "记录每次变更：谁、做了什么、变更前后的状态、来自何处。",
    action: "操作",
    actor: "操作者",
    subject: "对象",
    details: "变更前后",
    before: "变更前",
    after: "变更后",
    nothing: "无",
    none: "没有匹配的记录",
    close: "关闭",
  },
});
