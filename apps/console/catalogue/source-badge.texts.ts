import { translated } from "../app/texts.ts";

export const useSourceTexts = translated({
  en: {
    file: "File",
    database: "Console",
    fileWhy: "From the catalogue's file: it is changed there",
    databaseWhy: "Made here or by the API",
    inFile: "This entry is in {file}, and is changed there.",
    readOnly: "The catalogue is read-only here: its operator has set CATALOGUE_READ_ONLY.",
  },
  zh: {
    file: "文件",
    database: "控制台",
    fileWhy: "来自目录文件，请在文件中修改",
    databaseWhy: "在此处或通过 API 创建",
    inFile: "此条目位于 {file}，请在文件中修改。",
    readOnly: "目录在此处为只读：运维人员设置了 CATALOGUE_READ_ONLY。",
  },
});
