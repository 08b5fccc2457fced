import { translated } from "../app/texts.ts";

export const useSideTexts = translated({
  en: {
    events: "Events",
    you: "You",
    call: "Calls {name} with",
    resultHelp: "The model waits for this result. Type what the tool would return.",
    sendResults: "Send results",
    again: "Send again",
    empty: "Write a message below.",
    noEvents: "Lines of the answer appear here.",
    form: "Form of the request",
  },
  zh: {
    events: "事件",
    you: "您",
    call: "调用 {name}，参数",
    resultHelp: "模型正在等待此结果。请输入工具将返回的内容。",
    sendResults: "发送结果",
    again: "重新发送",
    empty: "在下方输入消息。",
    noEvents: "回答的原始行会显示在这里。",
    form: "请求的形式",
  },
});
