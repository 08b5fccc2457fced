/** Refusals: values inside, thrown where a transport's error handler answers them. */
import type { Failure } from "#dialects/errors.ts";

/** A request cannot be served: the caller gets `failure`, with these headers. */
export class Refusal extends Error {
  readonly failure: Failure;
  readonly headers: Record<string, string>;

  constructor(failure: Failure, headers: Record<string, string> = {}) {
    super(failure.message);
    this.failure = failure;
    this.headers = headers;
  }
}

/** The failure of a request with a fault in the field `param`. */
export const invalidRequest = (message: string, param?: string): Failure => ({
  code: "invalid_request",
  message,
  ...(param !== undefined && { param }),
});

/** The refusal of a request with a fault in the field `param`. */
export const refusalOf = (message: string, param?: string): Refusal => new Refusal(invalidRequest(message, param));

/** A value, or the reason why there is none. */
export type Result<Value> = Value | Refusal;

/** For the edge, whose error handler answers a refusal. */
export function valueOrThrow<Value>(result: Result<Value>): Value {
  if (result instanceof Refusal) throw result;
  return result;
}

/** The values of these results, or the first refusal. */
export const valuesOf = <Value>(results: readonly Result<Value>[]): Result<Value[]> =>
  results.find((result) => result instanceof Refusal) ?? (results as Value[]);
