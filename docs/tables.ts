/** Markdown of the generated pages. */

const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

export const code = (text: string) => (text === "" ? "" : `\`${text}\``);

export const tableOf = (heads: string[], rows: string[][]): string =>
  [heads, heads.map(() => "---"), ...rows.map((row) => row.map(cell))]
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
