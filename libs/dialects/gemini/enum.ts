/**
 * Answers that are one of several values, as bare text (`text/x.enum`):
 * https://ai.google.dev/gemini-api/docs/structured-output. Other dialects enforce a schema only for
 * JSON objects, so their models are asked for an object with one member, and the caller gets its
 * value.
 */
import { type JsonObject, objectOf, textOf } from "#wire/json/parse.ts";
import { jsonSchemaOf } from "./google-schema.ts";

export const enumMimeType = "text/x.enum";

const member = "value";

/**
 * The schema of the object that wraps the value; undefined if the caller's schema lists no values.
 */
export function enumObjectSchemaOf(schema: unknown): JsonObject | undefined {
  const { enum: values, description } = jsonSchemaOf(schema);
  if (!Array.isArray(values) || values.length === 0 || !values.every((value) => typeof value === "string"))
    return undefined;
  const value = { type: "string", enum: values, ...(textOf(description) !== undefined && { description }) };
  return { type: "object", properties: { [member]: value }, required: [member], additionalProperties: false };
}

/** True if a caller's body asks for such an answer. */
export function asksForEnum({ generationConfig, generation_config: other }: JsonObject): boolean {
  const { responseMimeType, response_mime_type: snake } = objectOf(generationConfig ?? other);
  return (responseMimeType ?? snake) === enumMimeType;
}

/**
 * The bare value in a model's text. Empty for a truncated object; any other text stays unchanged.
 */
export function enumValueOf(text: string): string {
  const bare = text.trim();
  if (!bare.startsWith("{")) return bare;
  try {
    return textOf(objectOf(JSON.parse(bare))[member]) ?? bare;
  } catch {
    return "";
  }
}
