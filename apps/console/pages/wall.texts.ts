import { translated } from "../app/texts.ts";

export const useWallTexts = translated({
  en: {
    title: "Operations",
    requests: "Requests/s",
    failed: "Failed/s",
    paused: "paused",
    draining: "draining",
    noWorker: "no worker",
    fine: "Nothing needs attention",
    connecting: "Connecting",
    forbidden: "Only operators may see this screen",
    stale: "No data since {time}",
    last: "last minutes",
  },
  zh: {
    title: "运维",
    requests: "每秒请求数",
    failed: "每秒失败数",
    paused: "已暂停",
    draining: "排空中",
    noWorker: "无工作进程",
    fine: "目前没有需要处理的情况",
    connecting: "正在连接",
    forbidden: "只有运维人员可以查看此页面",
    stale: "自 {time} 起没有数据",
    last: "最近几分钟",
  },
});
