/** Refusals: values inside, and thrown where a transport's error handler answers them. */
import type { Failure } from "#dialects/errors.ts";

/** A request cannot be served. */
export interface Refusal {
  readonly kind: "refused";
  readonly failure: Failure;
}

/** A value, or the reason why there is none. */
export type Result<Value> = { readonly kind: "value"; readonly value: Value } | Refusal;

export const refusalOf = (failure: Failure): Refusal => ({ kind: "refused", failure });
export const resultOf = <Value>(value: Value): Result<Value> => ({ kind: "value", value });

/**
 * Thrown for a request that cannot be served; the error handler of its transport responds with
 * `failure`.
 */
export class Refused extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** Throws Refused for a refusal. */
export function valueOrThrow<Value>(result: Result<Value>): Value {
  if (result.kind === "refused") throw new Refused(result.failure);
  return result.value;
}

/** Throws Refused for a refusal, and does nothing without one. */
export function throwRefusal(refusal: Refusal | undefined): void {
  if (refusal !== undefined) throw new Refused(refusal.failure);
}

/** The value of work that may throw Refused, or the refusal. */
export function resultFrom<Value>(work: () => Value): Result<Value> {
  try {
    return resultOf(work());
  } catch (error) {
    if (error instanceof Refused) return refusalOf(error.failure);
    throw error;
  }
}
