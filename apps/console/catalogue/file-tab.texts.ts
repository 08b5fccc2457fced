import { translated } from "../app/texts.ts";

export const useFileTabTexts = translated({
  en: {
    inForce: "Version {version} is in force",
    fault: "The file is not in force: the last valid catalogue stays",
    file: "File",
    lastChange: "The last change, {time}",
    check: "Check a change",
    checkAbout: "Paste a whole file. Nothing is saved: change the file on the server when you like the result.",
    fromFile: "Begin with the file",
    proposed: "Proposed file",
    run: "Check",
    valid: "The file is valid.",
    difference: "Lines that differ",
    mistake: "The place of the mistake",
  },
  zh: {
    inForce: "版本 {version} 生效中",
    fault: "文件未生效：继续使用上一个有效的目录",
    file: "文件",
    lastChange: "最近一次更改，{time}",
    check: "检查更改",
    checkAbout: "粘贴完整的文件。此处不会保存：对结果满意后，请修改服务器上的文件。",
    fromFile: "从当前文件开始",
    proposed: "拟议的文件",
    run: "检查",
    valid: "文件有效。",
    difference: "不同的行",
    mistake: "错误位置",
  },
});
