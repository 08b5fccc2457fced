/** Reads the values of a request: each by its schema, and by rules beyond the schema. */
import type { Static, TSchema } from "typebox";
import { refuse } from "../dialect.ts";
import { compiled, shaped, string } from "../shape.ts";

export const toolName = string({ pattern: "^[a-zA-Z0-9_-]{1,128}$" });

/** Reads the value `at` a path of the body, or refuses it. */
export type Reader<Read> = (value: unknown, at: string) => Read;

export function readerOf<Schema extends TSchema, Read>(
  schema: Schema,
  read: (value: Static<Schema>, at: string) => Read,
): Reader<Read> {
  const checked = compiled(schema);
  return (value, at) => read(shaped(checked, value, at) as Static<Schema>, at);
}

/** The reader of a type, if there is one. */
export const readerAmong = <Read>(readers: Record<string, Reader<Read>>, type: string) =>
  Object.hasOwn(readers, type) ? readers[type] : undefined;

/** `code` is one of OpenAI's. */
export const refused = (param: string, message: string, code: string | null = null, status = 400): never =>
  refuse(message, param, { code, status });

export const unsupported = (param: string, value: string, supported: string[]): never =>
  refused(
    param,
    `Invalid value: '${value.slice(0, 60)}'. Supported values are: ${supported.join(", ")}.`,
    "invalid_value",
  );

export const missing = (param: string): never =>
  refused(param, `Missing required parameter: '${param}'.`, "missing_required_parameter");
