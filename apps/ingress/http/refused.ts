import type { Failure } from "#dialects/errors.ts";

/** Thrown where a request can't be served; the error handler of its transport answers it with `failure`. */
export class Refused extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}
