/** Common parts of request schemas. */
import Type from "typebox";

export type Schema = Record<string, unknown>;

export const int32Max = 2_147_483_647;
export const nullable = (type: string, more: Schema = {}): Schema => ({ type: [type, "null"], ...more });
export const optional = (schema: Schema) => Type.Optional(Type.Unsafe<unknown>(schema));
export const optionalNumber = (minimum: number, maximum: number) => optional(nullable("number", { minimum, maximum }));
export const optionalInteger = (minimum: number, maximum?: number) =>
  optional(nullable("integer", { minimum, ...(maximum !== undefined && { maximum }) }));
/** The member is present and has one of these values. A missing member is reported as missing, rather than by the rules that depend on it. */
export const has = (member: string, ...values: string[]) => ({
  required: [member],
  properties: { [member]: { enum: values } },
});
