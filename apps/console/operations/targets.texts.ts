import { translated } from "../app/texts.ts";

export const useTargetsTexts = translated({
  en: {
    title: "Targets and circuit breakers",
    none: "The catalogue has no targets",
    state: "Circuit breaker",
    open: "Open",
    "half-open": "Half open",
    closed: "Closed",
    kept: "{reason} ({by}, until {until})",
    calls: "Calls a minute",
    cooling: "In cooldown",
    doOpen: "Keep open",
    openTitle: "Keep the circuit breaker of {target} open?",
    openWhy:
      "No worker calls this target until the time is over or you close it. Requests go to other targets, or fail if there is none.",
    doClose: "Close",
    closeTitle: "Close the circuit breaker of {target}?",
    closeWhy: "Workers call this target again at once. Further failures open it again.",
  },
  zh: {
    title: "目标与熔断器",
    none: "目录中没有目标",
    state: "熔断器",
    open: "断开",
    "half-open": "半开",
    closed: "闭合",
    kept: "{reason}（{by}，至 {until}）",
    calls: "每分钟调用",
    cooling: "冷却中",
    doOpen: "保持断开",
    openTitle: "让 {target} 的熔断器保持断开？",
    openWhy: "在时间结束或您闭合之前，工作进程不会调用此目标。请求转向其他目标，没有其他目标时失败。",
    doClose: "闭合",
    closeTitle: "闭合 {target} 的熔断器？",
    closeWhy: "工作进程立即重新调用此目标。再次失败会使其重新断开。",
  },
});
