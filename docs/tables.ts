/** Markdown of the generated pages. */

const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

export const code = (text: string) => (text === "" ? "" : `\`${text}\``);

export const tableOf = (heads: string[], rows: string[][]): string =>
  [heads, heads.map(() => "---"), ...rows.map((row) => row.map(cell))]
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");

/**
 * The same, with columns of equal width, as the formatter writes the tables of pages that people
 * edit.
 */
export function alignedTableOf(heads: string[], rows: string[][]): string {
  const cells = [heads, ...rows].map((row) => row.map(cell));
  const widths = heads.map((_, place) => Math.max(3, ...cells.map((row) => (row[place] ?? "").length)));
  const lineOf = (row: string[]) => `| ${row.map((text, place) => text.padEnd(widths[place] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = cells;
  return [lineOf(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body.map(lineOf)].join("\n");
}

/** A table of numbers: all columns but the first are set to the right. */
export function numberTableOf(heads: string[], rows: string[][]): string {
  const widths = heads.map((_, place) => Math.max(...[heads, ...rows].map((cells) => cells[place]?.length ?? 0)));
  const lineOf = (cells: string[]) =>
    `| ${cells.map((text, place) => (place === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[place] ?? 0))).join(" | ")} |`;
  const rule = widths.map((width, place) => (place === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [lineOf(heads), lineOf(rule), ...rows.map(lineOf)].join("\n");
}

/** The page with another text between the marks `<!-- name -->` and `<!-- /name -->`. */
export const withMarked = (page: string, name: string, text: string): string =>
  page.replace(
    new RegExp(`(<!-- ${name} -->\\n)[\\s\\S]*?(\\n<!-- /${name} -->)`),
    (_, start: string, end: string) => `${start}\n${text}\n${end}`,
  );
