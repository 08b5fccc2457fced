/** Accepts the trials of operators (#access/trial.ts). */
import type { FastifyRequest } from "fastify";
import { InternalVerifier } from "#access/internal-signature.ts";
import { type Trial, trialHeader, trialIn } from "#access/trial.ts";
import { type Refusal, refusalOf } from "../common/refusal.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Undefined for a request that is no trial. */
    trial: Trial | undefined;
  }
}

const notValid = refusalOf(
  `The header ${trialHeader} is not valid: the console makes it for operators, for one request of one key to one model within seconds.`,
  trialHeader,
);

/** Undefined unless the request is a trial of another model. */
export const refusalOfTrial = (trial: Trial | undefined, model: string): Refusal | undefined =>
  trial === undefined || trial.model === model ? undefined : notValid;

export class Trials {
  readonly #verifier: InternalVerifier | undefined;

  /** Without a secret no trial is valid. */
  constructor(secret: string | undefined) {
    this.#verifier = secret === undefined ? undefined : new InternalVerifier(secret);
  }

  /** Throws Refusal for a header that is not valid. `now` in epoch milliseconds. */
  open(request: FastifyRequest, now: number): void {
    const header = request.headers[trialHeader];
    if (header === undefined) return;
    request.trial = this.#verifier && trialIn(this.#verifier, header, request, now);
    if (request.trial === undefined) throw notValid;
  }
}
