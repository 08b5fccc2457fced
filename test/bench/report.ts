/** Tables of the results: on the terminal, as Markdown and as JSON. */

/** The figures of one row, a list for each: one of every round. */
export interface Row {
  labels: readonly (string | number)[];
  figures: Record<string, number[]>;
  errors: string[];
}

export interface Column {
  key: string;
  /** With its unit. */
  head: string;
  digits: number;
}

export interface Table {
  key: string;
  title: string;
  /** Explanations of the columns. */
  notes: string[];
  labels: string[];
  columns: Column[];
  rows: Row[];
}

/** The prefix, in the key of a CPU figure, of the name of a kind of process. */
export const cpuOf = "cpu of ";

export const median = (values: readonly number[]): number => {
  const ascending = values.filter((value) => !Number.isNaN(value)).toSorted((left, right) => left - right);
  const middle = ascending.length >> 1;
  return ascending.length === 0
    ? Number.NaN
    : ascending.length % 2 === 1
      ? (ascending[middle] as number)
      : ((ascending[middle - 1] as number) + (ascending[middle] as number)) / 2;
};

/** The row with these labels, made if it is not there yet. */
export function rowOf(table: Table, labels: Row["labels"]): Row {
  const earlierRow = table.rows.find((row) => row.labels.join("\t") === labels.join("\t"));
  if (earlierRow !== undefined) return earlierRow;
  const row: Row = { labels, figures: {}, errors: [] };
  table.rows.push(row);
  return row;
}

/** Adds a round's figures to a row. */
export function record(
  table: Table,
  labels: Row["labels"],
  figures: Record<string, number>,
  errors: readonly string[] = [],
): void {
  const row = rowOf(table, labels);
  for (const [key, value] of Object.entries(figures)) {
    row.figures[key] ??= [];
    row.figures[key].push(value);
  }
  row.errors.push(...errors);
}

/** A figure's median; undefined if it was not measured. */
export function figureOf(
  tables: readonly Table[],
  table: string,
  labels: Row["labels"],
  key: string,
): number | undefined {
  const row = tables.find((one) => one.key === table)?.rows.find((one) => one.labels.join("\t") === labels.join("\t"));
  const value = median(row?.figures[key] ?? []);
  return Number.isNaN(value) ? undefined : value;
}

export const numberText = (value: number, digits: number): string =>
  Number.isNaN(value)
    ? "–"
    : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** A Markdown table with aligned columns. */
export function gridOf(head: readonly string[], lines: readonly (readonly string[])[], labels: number): string {
  const widths = head.map((_, place) => Math.max(3, ...[head, ...lines].map((line) => (line[place] ?? "").length)));
  const lineOf = (cells: readonly string[]) =>
    `| ${cells.map((cell, place) => (place < labels ? cell.padEnd(widths[place] as number) : cell.padStart(widths[place] as number))).join(" | ")} |`;
  const rule = `| ${widths.map((width, place) => (place < labels ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)).join(" | ")} |`;
  return [lineOf(head), rule, ...lines.map(lineOf)].join("\n");
}

export function textOf(table: Table): string {
  const columns = table.columns.filter(({ key }) => table.rows.some((row) => row.figures[key] !== undefined));
  const failed = table.rows.some((row) => row.errors.length > 0);
  const head = [...table.labels, ...columns.map((column) => column.head), ...(failed ? ["errors"] : [])];
  const lines = table.rows.map((row) => [
    ...row.labels.map((label) => (typeof label === "number" ? numberText(label, 0) : label)),
    ...columns.map(({ key, digits }) => numberText(median(row.figures[key] ?? []), digits)),
    ...(failed ? [[...new Set(row.errors)].join("; ")] : []),
  ]);
  return `## ${table.title}\n\n${table.notes.join(" ")}\n\n${gridOf(head, lines, table.labels.length)}`;
}

/** The CPU of each kind of process, for systems with several. Undefined if there are none. */
export function byProcess(table: Table): Table | undefined {
  const rows = table.rows.filter(
    ({ figures }) => Object.keys(figures).filter((key) => key.startsWith(cpuOf)).length > 1,
  );
  const keys = [...new Set(rows.flatMap(({ figures }) => Object.keys(figures)))].filter((key) => key.startsWith(cpuOf));
  const whole = table.columns.find(({ key }) => key === "cpu");
  if (rows.length === 0 || whole === undefined) return undefined;
  const columns = [whole, ...keys.map((key) => ({ key, head: key.slice(cpuOf.length), digits: whole.digits }))];
  return {
    ...table,
    key: `${table.key}-by-process`,
    title: `${table.title}: CPU by process`,
    notes: [`${whole.head}, and of it in each kind of process.`],
    columns,
    rows,
  };
}
