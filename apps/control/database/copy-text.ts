/**
 * COPY, which stores many rows at a fraction of an INSERT's cost:
 * https://www.postgresql.org/docs/current/sql-copy.html. Both kinds of database take the statement
 * with the rows as its only parameter, and send them in their own way.
 */
import { CompiledQuery } from "kysely";

/** `rows` is text in the format of COPY: see `copyLine`. */
export const copyOf = (table: string, columns: readonly string[], rows: string): CompiledQuery =>
  CompiledQuery.raw(`copy ${table} (${columns.join(", ")}) from stdin`, [rows]);

export const isCopy = (statement: string): boolean => statement.startsWith("copy ");

const escapes: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
const escaped = (value: string | null): string =>
  value === null ? "\\N" : value.replace(/[\\\t\n\r]/g, (character) => escapes[character] as string);

/** One row in the text format of COPY. */
export const copyLine = (values: readonly (string | null)[]): string => `${values.map(escaped).join("\t")}\n`;
