import { translated } from "../app/texts.ts";

export const useChangeViewTexts = translated({
  en: {
    noChange: "It changes nothing.",
    kinds: { models: "Models", groups: "Groups", upstreams: "Upstreams", queues: "Queues" },
    changed: "changed",
    affected: "Keys that would lose something",
    loses: "Loses",
    wholeGroup: "The group itself: its keys would be refused",
    nobody: "No key would lose a model.",
    difference: "Lines that differ",
    comment: "Why",
    commentHelp: "For the list of revisions and the audit log.",
    checking: "The change is checked",
    stays: "Requests that run keep the former revision.",
  },
  zh: {
    noChange: "没有任何变化。",
    kinds: { models: "模型", groups: "分组", upstreams: "上游", queues: "队列" },
    changed: "更改",
    affected: "会受影响的密钥",
    loses: "失去",
    wholeGroup: "整个分组：其密钥将被拒绝",
    nobody: "没有密钥会失去模型。",
    difference: "不同的行",
    comment: "原因",
    commentHelp: "显示在修订列表和审计日志中。",
    checking: "正在检查更改",
    stays: "正在运行的请求继续使用之前的修订。",
  },
});
