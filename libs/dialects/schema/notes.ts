/**
 * Keywords that a target does not enforce are repeated in the description, as the vendors' client
 * libraries do.
 */
import { schemaNoteLengthMax } from "../bounds.ts";
import type { Schema } from "./references.ts";

/** The schema with these keywords in its description. */
export function withNotes(schema: Schema, notes: readonly (readonly [string, unknown])[]): Schema {
  if (notes.length === 0) return schema;
  const sentences = notes.map(
    ([keyword, value]) => `${keyword}: ${(JSON.stringify(value) ?? "").slice(0, schemaNoteLengthMax)}`,
  );
  const { description } = schema;
  return {
    ...schema,
    description: `${typeof description === "string" && description !== "" ? `${description}\n\n` : ""}{${sentences.join(", ")}}`,
  };
}
