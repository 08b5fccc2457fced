import { translated } from "../app/texts.ts";

export const useRunViewTexts = translated({
  en: {
    waiting: "Waiting for the first token …",
    duration: "Time",
    ofReasoning: "{count} of reasoning",
    ofCache: "{count} from the cache",
    speed: "Tokens/s",
    tokensInOut: "Tokens in/out",
    blocked:
      "The browser could not reach the gateway. Its address must be reachable from here and its origin allowed for this page.",
    unfinished: "Ended early: {reason}",
  },
  zh: {
    waiting: "等待第一个令牌 …",
    duration: "用时",
    ofReasoning: "其中推理 {count}",
    ofCache: "其中缓存 {count}",
    speed: "令牌/秒",
    tokensInOut: "令牌 入/出",
    blocked: "浏览器无法连接网关。请确认其地址可以访问，并且允许此页面的来源。",
    unfinished: "提前结束：{reason}",
  },
});
