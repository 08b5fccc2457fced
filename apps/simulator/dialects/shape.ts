/** The shapes of bodies: parts that their schemas share, and in one sentence, with the field's path, what is wrong with a body. */
import Type from "typebox";
import type { TLocalizedValidationError } from "typebox/error";
import { refuse } from "./dialect.ts";

export const text = Type.String();
export const filledText = Type.String({ minLength: 1 });
export const flag = Type.Boolean();
export const anything = Type.Unknown();
export const optional = Type.Optional;
export const nullable = <Schema extends Type.TSchema>(schema: Schema) => optional(Type.Union([schema, Type.Null()]));
export const nullableText = nullable(text);
export const nullableFlag = nullable(flag);
export const nullableNumber = (minimum: number, maximum: number) => nullable(Type.Number({ minimum, maximum }));
export const nullableInteger = (minimum: number, maximum?: number) =>
  nullable(Type.Integer({ minimum, ...(maximum !== undefined && { maximum }) }));

export interface Shape<Value> {
  Check(value: unknown): value is Value;
  Errors(value: unknown): TLocalizedValidationError[];
}

/** The value, which is refused unless it has this shape. `at` is its path in the body, if it is a part of it. */
export function shaped<Value>(shape: Shape<Value>, value: unknown, at = ""): Value {
  if (shape.Check(value)) return value;
  const { message, param } = faultIn(shape.Errors(value), at);
  return refuse(message, param);
}

/** Names the deepest fault, for that is the alternative of a union which the caller meant. */
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
