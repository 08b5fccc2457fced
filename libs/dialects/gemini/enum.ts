/**
 * Answers that are one of several values, as bare text (`text/x.enum`): https://ai.google.dev/gemini-api/docs/structured-output. Other dialects enforce a schema
 * only for JSON objects: their models are asked for an object with the value in it, of which the caller gets the value.
 */

import { objectOf, textOf } from "../json.ts";
import { jsonSchemaOf } from "./json-schema.ts";

export const enumMimeType = "text/x.enum";

const member = "value";

/** The schema of the object that holds one of the values; undefined when the caller's schema lists none. */
export function enumObjectSchemaOf(schema: unknown): Record<string, unknown> | undefined {
  const { enum: values, description } = jsonSchemaOf(schema);
  if (!Array.isArray(values) || values.length === 0 || !values.every((value) => typeof value === "string"))
    return undefined;
  const value = { type: "string", enum: values, ...(textOf(description) !== undefined && { description }) };
  return { type: "object", properties: { [member]: value }, required: [member], additionalProperties: false };
}

/** Does a caller's body ask for such an answer? */
export function asksForEnum({ generationConfig, generation_config: other }: Record<string, unknown>): boolean {
  const { responseMimeType, response_mime_type: snake } = objectOf(generationConfig ?? other);
  return (responseMimeType ?? snake) === enumMimeType;
}

/** The bare value in a model's text. Nothing of an object that broke off; any other text as it is. */
export function enumValueOf(text: string): string {
  const bare = text.trim();
  if (!bare.startsWith("{")) return bare;
  try {
    return textOf(objectOf(JSON.parse(bare))[member]) ?? bare;
  } catch {
    return "";
  }
}
