/** Common parts of request schemas. */
import Type from "typebox";

export type Schema = Record<string, unknown>;

export const int32Max = 2_147_483_647;
export const nullable = (type: string, more: Schema = {}): Schema => ({ type: [type, "null"], ...more });
export const optional = (schema: Schema) => Type.Optional(Type.Unsafe<unknown>(schema));
export const optionalNumber = (minimum: number, maximum: number) => optional(nullable("number", { minimum, maximum }));
export const optionalInteger = (minimum: number, maximum?: number) =>
  optional(nullable("integer", { minimum, ...(maximum !== undefined && { maximum }) }));
export const text = Type.Unsafe<string>({ type: "string" });
export const name = Type.String({ minLength: 1 });
export const modelName = Type.String({ minLength: 1, maxLength: 256 });
export const optionalText = optional(nullable("string"));
export const optionalFlag = optional(nullable("boolean"));
export const objectWith = (properties: Schema, ...required: string[]) => nullable("object", { properties, required });
export const optionalObject = (properties: Schema = {}, ...required: string[]) =>
  optional(objectWith(properties, ...required));
export const optionalList = (items: object) => optional(nullable("array", { items }));
/**
 * OpenAI's: https://platform.openai.com/docs/api-reference/chat/create#chat-create-metadata The
 * gateway reads tags, which may be a list.
 */
export const metadata = optional(
  nullable("object", {
    maxProperties: 16,
    propertyNames: { maxLength: 64 },
    properties: {
      tags: { type: ["string", "array"], maxLength: 512, maxItems: 16, items: { type: "string", maxLength: 512 } },
    },
    additionalProperties: { type: "string", maxLength: 512 },
  }),
);
export const cacheOptions = optionalObject({ mode: optionalText, ttl: optionalText });
export const safetyIdentifier = optional(nullable("string", { maxLength: 128 }));
export const when = (condition: Schema, ...required: string[]) => whenWith(condition, {}, ...required);
export const whenWith = (condition: Schema, properties: Schema, ...required: string[]): Schema => ({
  if: condition,
  then: { required, properties },
});
/** An object with a type and these members. */
export const typed = (properties: Schema = {}, more: Schema = {}): Schema => ({
  type: "object",
  required: ["type"],
  properties: { type: text, ...properties },
  ...more,
});
/** The same, or null. */
export const typedOrNull = (properties: Schema, more: Schema = {}) =>
  typed(properties, { type: ["object", "null"], ...more });
export const optionalTexts = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, optionalText])) as Record<Name, typeof optionalText>;
/** The schema of a tool's arguments. Agents also write a list or a flag for none. */
export const looseParameters: Schema = { type: ["object", "array", "boolean", "null"] };
/** A call's result: a list of parts, or any value that a tool returned. */
export const partsOrValue = (part: object): Schema => ({
  if: { type: "array", items: { type: "object", required: ["type"] } },
  then: { items: part },
});
/**
 * The member is present and has one of these values. A missing member is reported as missing,
 * rather than by the rules that depend on it.
 */
export const has = (member: string, ...values: string[]) => ({
  required: [member],
  properties: { [member]: { enum: values } },
});
