/**
 * COPY, which stores many rows at a fraction of an INSERT's cost:
 * https://www.postgresql.org/docs/current/sql-copy.html. Both kinds of database take the statement
 * with the rows as its only parameter, and send them in their own way.
 */
import { CompiledQuery } from "kysely";

/** `rows` is text in the format of COPY: see `copyLine`, `copyText` and `copyNull`. */
export const copyOf = (table: string, columns: readonly string[], rows: string): CompiledQuery =>
  CompiledQuery.raw(`copy ${table} (${columns.join(", ")}) from stdin`, [rows]);

export const isCopy = (statement: string): boolean => statement.startsWith("copy ");

/** Stands for null. */
export const copyNull = "\\N";

const special = /[\\\t\n\r]/;
const escapes: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** A text as a value. Numbers, booleans and times are written as they are. */
export const copyText = (text: string): string =>
  special.test(text) ? text.replace(/[\\\t\n\r]/g, (character) => escapes[character] as string) : text;

/** One row in the text format of COPY. */
export const copyLine = (values: readonly string[]): string => `${values.join("\t")}\n`;
