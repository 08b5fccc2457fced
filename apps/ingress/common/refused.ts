import type { Failure } from "#dialects/errors.ts";

/** Thrown for a request that cannot be served; the error handler of its transport responds with `failure`. */
export class Refused extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}
