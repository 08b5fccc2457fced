/**
 * The shared parts of the schemas of bodies, and the description of a fault in one sentence, with
 * the field's path.
 */
import Type from "typebox";
import { Compile } from "typebox/compile";
import type { TLocalizedValidationError } from "typebox/error";
import { refuse } from "./dialect.ts";

export const object = Type.Object;
export const list = Type.Array;
export const record = Type.Record;
export const anyOf = Type.Union;
export const oneOf = Type.Enum;
export const exactly = Type.Literal;
export const string = Type.String;
export const integer = Type.Integer;
export const number = Type.Number;
export const compiled = Compile;
export const text = string();
export const filledText = Type.String({ minLength: 1 });
export const flag = Type.Boolean();
export const anything = Type.Unknown();
export const optional = Type.Optional;
export const nullable = <Schema extends Type.TSchema>(schema: Schema) => optional(anyOf([schema, Type.Null()]));
export const nullableText = nullable(text);
export const nullableFlag = nullable(flag);
export const nullableNumber = (minimum: number, maximum: number) => nullable(number({ minimum, maximum }));
export const nullableInteger = (minimum: number, maximum?: number) =>
  nullable(integer({ minimum, ...(maximum !== undefined && { maximum }) }));

export interface Shape<Value> {
  Check(value: unknown): value is Value;
  Errors(value: unknown): TLocalizedValidationError[];
}

/**
 * Returns the value, or refuses it if it does not have this shape. `at` is its path in the body, if
 * it is nested.
 */
export function shaped<Value>(shape: Shape<Value>, value: unknown, at = ""): Value {
  if (shape.Check(value)) return value;
  const { message, param } = faultIn(shape.Errors(value), at);
  return refuse(message, param);
}

/**
 * Describes the deepest fault, because that is in the alternative of a union which the caller
 * meant.
 */
export function faultIn(errors: TLocalizedValidationError[], at = ""): { message: string; param: string } {
  const error = errors.reduce<TLocalizedValidationError | undefined>(
    (deepest, one) => (deepest && deepest.instancePath.length >= one.instancePath.length ? deepest : one),
    undefined,
  );
  const missing = error?.keyword === "required" ? `.${error.params.requiredProperties[0]}` : "";
  const param = (
    at +
    (error?.instancePath ?? "").replace(/\/(\d+)(?=\/|$)/g, "[$1]").replaceAll("/", ".") +
    missing
  ).replace(/^\./, "");
  return { message: `${param || "The body"}: ${error?.message ?? "is not understood"}.`, param };
}
