/** Any members of an object, of the objects in it, and of those that its methods return. */
type Part<Whole> = Whole extends (...values: infer Values) => infer Result
  ? (...values: Values) => Part<Result>
  : Whole extends ReadonlyMap<infer Key, infer Value>
    ? ReadonlyMap<Key, Part<Value>>
    : Whole extends Promise<infer Value>
      ? Promise<Part<Value>>
      : Whole extends object
        ? { readonly [Key in keyof Whole]?: Part<Whole[Key]> | undefined }
        : Whole;

/**
 * A part of an object that stands for the whole one, for code that uses no other member. The
 * members have the types of the whole.
 */
export const partOf = <Whole>(part: Part<Whole>): Whole => part as Whole;
