import { translated } from "../app/texts.ts";

export const useKeyTexts = translated({
  en: {
    edit: "Change",
    rotate: "Rotate",
    rotateTitle: "Rotate this key",
    rotateWhy:
      "Creates a key with the same settings. The old key stays valid for the overlap, so that programs can change over.",
    overlap: "Overlap in hours",
    revokeWhy:
      "Programs that use this key get status 401 within a second, and their running requests end. This cannot be undone.",
    total: "In total",
    ends: "Ends with",
    revokedAt: "Revoked",
    replacedBy: "Replaced by",
    allModels: "All of the group",
    any: "Any",
    ofGroup: "As in the group",
    seeUsage: "Usage of this key",
    seeRequests: "Requests of this key",
  },
  zh: {
    edit: "修改",
    rotate: "轮换",
    rotateTitle: "轮换此密钥",
    rotateWhy: "创建一个设置相同的新密钥。旧密钥在重叠期内继续有效，便于程序切换。",
    overlap: "重叠期（小时）",
    revokeWhy: "使用此密钥的程序会在一秒内收到 401，其正在进行的请求会终止。此操作无法撤销。",
    total: "总计",
    ends: "末尾字符",
    revokedAt: "吊销时间",
    replacedBy: "替代密钥",
    allModels: "分组的全部模型",
    any: "不限",
    ofGroup: "使用分组的设置",
    seeUsage: "此密钥的用量",
    seeRequests: "此密钥的请求",
  },
});
