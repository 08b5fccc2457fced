import { translated } from "../app/texts.ts";

export const useEntryDialogTexts = translated({
  en: {
    settings: "Settings of {name}",
    json: "As in a catalogue file, as JSON",
    next: "Check the change",
    apply: "Put in force",
    notJson: "This is not valid JSON: {problem}",
    names: { upstream: "Name", model: "Id", group: "Name", queue: "Name" },
    addTitles: {
      upstream: "Add an upstream",
      model: "Add a model",
      group: "Add a group",
      queue: "Add a queue",
    },
  },
  zh: {
    settings: "{name} 的设置",
    json: "与目录文件相同，JSON 格式",
    next: "检查更改",
    apply: "生效",
    notJson: "不是有效的 JSON：{problem}",
    names: { upstream: "名称", model: "ID", group: "名称", queue: "名称" },
    addTitles: { upstream: "添加上游", model: "添加模型", group: "添加分组", queue: "添加队列" },
  },
});
