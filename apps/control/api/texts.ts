/**
 * Texts that Postgres cannot store: those with NUL, or with half of a surrogate pair, which JSON
 * can spell.
 */

export const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed();

/** The first field that contains such a text. */
export const unstorableField = (fields: unknown): string | undefined =>
  Object.entries(fields ?? {}).find(([, value]) => !isAllStorable(value))?.[0];

function isAllStorable(value: unknown): boolean {
  if (typeof value === "string") return isStorable(value);
  return typeof value !== "object" || value === null || Object.values(value).every(isAllStorable);
}
