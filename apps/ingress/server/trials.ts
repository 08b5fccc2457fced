/** Accepts the trials of operators (#access/trial.ts). */
import type { FastifyRequest } from "fastify";
import { InternalVerifier } from "#access/internal-signature.ts";
import { trialHeader, trialIn } from "#access/trial.ts";
import { Refusal } from "../common/refusal.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The targets that count as failing; undefined for a request that is no trial. */
    trial: readonly string[] | undefined;
  }
}

const notValid = {
  code: "invalid_request",
  message: `The header ${trialHeader} is not valid: the console makes it for operators, for one request within seconds.`,
  param: trialHeader,
} as const;

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
    if (request.trial === undefined) throw new Refusal(notValid);
  }
}
