/** Schemas that several operations share. */
import Type, { type TProperties, type TSchema } from "typebox";
import { nameForm } from "#access/record.ts";

export const strict = { additionalProperties: false } as const;
export const strictObject = <Fields extends TProperties>(fields: Fields) => Type.Object(fields, strict);
export const optional = <Schema extends TSchema>(schema: Schema) => Type.Optional(schema);

const described = (description: string | undefined) => (description === undefined ? {} : { description });
export const object = <Fields extends TProperties>(fields: Fields, description?: string) =>
  Type.Object(fields, described(description));
export const listOf = <Item extends TSchema>(item: Item, description?: string) =>
  Type.Array(item, described(description));
export const oneOf = <const Value extends string>(values: readonly Value[], description?: string) =>
  Type.Enum<Value[]>(values as Value[], described(description));
export const text = (description?: string) => Type.String(described(description));
export const integer = (description?: string) => Type.Integer(described(description));
export const number = (description?: string) => Type.Number(described(description));
export const flag = (description?: string) => Type.Boolean(described(description));

export const id = (description: string) => Type.String({ minLength: 1, maxLength: 100, description });
export const name = (description: string) =>
  Type.Refine(
    Type.String({ minLength: 1, maxLength: 100, description }),
    (text) => nameForm.test(text),
    () => "must have a visible character, and neither control characters nor ones that change the direction of text",
  );
const lastStorableMs = Date.parse("9999-12-31T23:59:59.999Z");
/** Epoch milliseconds from 1970 to the year 9999. */
export const isStorableTime = (ms: number): boolean => Number.isInteger(ms) && ms >= 0 && ms <= lastStorableMs;
export const time = (description: string) =>
  Type.Refine(
    Type.String({ format: "date-time", maxLength: 40, description }),
    (text) => isStorableTime(Date.parse(text)),
    () => "must be a time from 1970 to 9999",
  );
export const orNull = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);
export const group = Type.String({ minLength: 1, maxLength: 40, description: "A group of the catalogue." });
/** A decimal number in the catalogue's currency, as text, because numbers of JSON are not exact. */
export const money = (description: string) => Type.String({ pattern: "^-?\\d{1,12}(\\.\\d{1,9})?$", description });

export const role = Type.Enum(["owner", "member", "reader"] as const, {
  description: "An owner manages the account's people, a member its keys; a reader sees usage and keys.",
});

export const pageQuery = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50, description: "Items of one page." })),
  cursor: Type.Optional(
    Type.String({ maxLength: 400, description: "`nextCursor` of the page before; absent for the first page." }),
  ),
};

/** A page of a list. */
export const pageOf = <Item extends TSchema>(item: Item) =>
  Type.Object({
    items: Type.Array(item),
    nextCursor: orNull(Type.String({ description: "Null on the last page." })),
  });

/** A change of some fields: what is absent stays, null removes. */
export const changeOf = <Fields extends TProperties>(fields: Fields) =>
  Type.Partial(Type.Object(fields, strict), strict);

/** An error: https://www.rfc-editor.org/rfc/rfc9457 */
export const problem = Type.Object({
  type: Type.String({ description: "Identifies the kind of problem." }),
  title: Type.String({ description: "The kind of problem in a few words." }),
  status: Type.Integer(),
  detail: Type.String({ description: "What happened, to what, and what to do about it." }),
  field: Type.Optional(Type.String({ description: "The field of the request that is wrong." })),
});
