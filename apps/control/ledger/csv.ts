/** CSV as of https://www.rfc-editor.org/rfc/rfc4180, with a line of names first. */
type Value = string | number | null | undefined;

/**
 * A text that a spreadsheet would take for a formula gets a leading apostrophe:
 * https://owasp.org/www-community/attacks/CSV_Injection
 */
export function csvOf(rows: readonly Readonly<Record<string, Value>>[], names: readonly string[]): string {
  const lines = [names, ...rows.map((row) => names.map((name) => row[name]))];
  return lines.map((values) => `${values.map(fieldOf).join(",")}\r\n`).join("");
}

function fieldOf(value: Value): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const isAmount = /^-?\d+(\.\d+)?$/.test(value);
  const safe = !isAmount && /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
