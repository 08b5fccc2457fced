/** CSV as of https://www.rfc-editor.org/rfc/rfc4180, with a line of names first. */
type Value = string | number | null | undefined;
type Row = Readonly<Record<string, Value>>;

export const csvOf = (rows: readonly Row[], names: readonly string[]): string =>
  names.map(fieldOf).join(",").concat("\r\n") + csvLinesOf(rows, names);

/** The lines of rows, without that of the names. */
export const csvLinesOf = (rows: readonly Row[], names: readonly string[]): string =>
  rows.map((row) => `${names.map((name) => fieldOf(row[name])).join(",")}\r\n`).join("");

/**
 * A text that a spreadsheet would take for a formula, in some languages with full-width signs, gets
 * a leading apostrophe: https://owasp.org/www-community/attacks/CSV_Injection
 */
function fieldOf(value: Value): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const isAmount = /^-?\d+(\.\d+)?$/.test(value);
  const safe = !isAmount && /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
