import { translated } from "../app/texts.ts";

export const useConditionsTexts = translated({
  en: {
    title: "Needs attention",
    none: "Nothing needs attention.",
    runbook: "Runbook",
    ledgerBehind: "The ledger is {value} behind.",
    invalidRecords: "The ledger put {value} usage records aside.",
    noWorker: "No worker takes jobs from the queue {subject}.",
    oldestWait: "A request has waited on the queue {subject} for {value}.",
    circuitBreakerOpen: "The circuit breaker of {subject} is not closed.",
    processSilent: "The process {subject} does not report.",
    redisMemory: "Redis uses {value} of its memory.",
  },
  zh: {
    title: "需要处理",
    none: "目前没有需要处理的情况。",
    runbook: "处理手册",
    ledgerBehind: "账本落后 {value}。",
    invalidRecords: "账本搁置了 {value} 条用量记录。",
    noWorker: "没有工作进程处理队列 {subject}。",
    oldestWait: "队列 {subject} 中有请求已等待 {value}。",
    circuitBreakerOpen: "{subject} 的熔断器未闭合。",
    processSilent: "进程 {subject} 没有报告。",
    redisMemory: "Redis 已使用 {value} 的内存。",
  },
});
