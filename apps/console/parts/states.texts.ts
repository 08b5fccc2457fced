import { translated } from "../app/texts.ts";

export const useStatesTexts = translated({
  en: {
    failed: "This could not be loaded",
    offline: "The connection is lost. What you see may be old; it is read again when the connection is back.",
    unreachable: "The server does not answer. Check your connection, then try again.",
    forbidden: "Your role does not allow this.",
    forbiddenWhy:
      "Operators, and for the audit log owners of an account, may open this page. Ask one of them for the role.",
    retry: "Try again",
    notFound: "Nothing is here",
    notFoundWhy: "It does not exist, or it belongs to an account that is not yours.",
    home: "To the start page",
    waiting: "Loading",
  },
  zh: {
    failed: "无法加载",
    offline: "连接已断开。当前内容可能已过期，恢复连接后会自动重新读取。",
    unreachable: "服务器没有响应。请检查网络连接后重试。",
    forbidden: "您的角色无权执行此操作。",
    forbiddenWhy: "只有运维人员（审计日志还包括账户所有者）可以打开此页面。请向他们申请相应角色。",
    retry: "重试",
    notFound: "这里没有内容",
    notFoundWhy: "它不存在，或属于其他账户。",
    home: "返回首页",
    waiting: "正在加载",
  },
});
