/**
 * Accepts the lines of batches, which control sends: a signature names the key of the batch in
 * place of an API key.
 */
import type { FastifyRequest } from "fastify";
import { InternalVerifier, internalSignatureHeader } from "#access/internal-signature.ts";
import { stateOf } from "#access/record.ts";
import type { GenerationJob } from "#relay/job.ts";
import { redisIsAway } from "../common/failures.ts";
import type { KeyDirectory } from "./authentication.ts";

/** A line of a batch, as the ledger knows it. */
interface BatchLine {
  batch: string;
  /** The same each time the line is sent. */
  generationId: string;
  /** Epoch milliseconds. */
  receivedAt: number;
  /** How many attempts its record counts before its own. */
  attempts: number;
  vendorBatch: GenerationJob["vendorBatch"];
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set for a line of a batch. */
    batchLine: BatchLine | undefined;
  }
}

/** The attempts of one request; and the most that a record counts before it. */
const attemptsPerSend = 100;
const attemptsMax = 60_000;

export const isBatchLine = ({ headers }: Pick<FastifyRequest, "headers">): boolean =>
  headers[internalSignatureHeader] !== undefined;

export class BatchCallers {
  readonly #verifier: InternalVerifier;
  readonly #keys: KeyDirectory;

  constructor(secret: string, keys: KeyDirectory) {
    this.#verifier = new InternalVerifier(secret);
    this.#keys = keys;
  }

  /**
   * Sets the caller of a request. False for a signature that is not valid, and for a key that is
   * not, or not any more at `now` (epoch milliseconds). Rejects with RedisUnavailable where Redis
   * does not say whether there is the key: control then sends the line again.
   */
  async identify(request: FastifyRequest, now: number): Promise<boolean> {
    const { method, originalUrl: url, headers } = request;
    const claims = this.#verifier.verify(headers[internalSignatureHeader], { receiver: "ingress", method, url }, now);
    if (claims?.batch === undefined || claims.key === undefined) return false;
    const record = this.#keys.find(claims.key) ?? (await this.#keys.look(claims.key).catch(redisIsAway));
    if (record === undefined || stateOf(record, now) !== "live") return false;
    request.caller = record;
    request.apiKey = "";
    request.batchLine = {
      batch: claims.batch,
      generationId: claims.generation ?? "",
      receivedAt: Number(claims.receivedAt),
      attempts: Math.min(attemptsMax, Number(claims.sends) * attemptsPerSend),
      vendorBatch: claims.vendorLine === undefined ? undefined : JSON.parse(claims.vendorLine),
    };
    return true;
  }
}
