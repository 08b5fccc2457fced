/** Sends the requests of batches to an ingress, signed in place of an API key. */
import { Pool } from "undici";
import { internalSignatureHeader, signInternal } from "#access/internal-signature.ts";
import type { Clock } from "#service/clock.ts";
import { boundedBytes } from "#wire/bounded-bytes.ts";
import { lineAnswerBytesMax, lineMs } from "../bounds.ts";

export interface LineRequest {
  /** The SHA-256 of the batch's key. */
  keyHash: string;
  batch: string;
  /** The path at the ingress. */
  path: string;
  body: Buffer;
  /** The line's, the same each time. */
  generationId: string;
  /** When the line's chunk began, in epoch milliseconds: its usage record is of that moment. */
  receivedAt: number;
  /** How often the line was sent before. */
  sends: number;
  vendorLine?: VendorLine | undefined;
}

/** The vendor's batch in which a line may be sent, or whose answer to it is in Redis. */
export interface VendorLine {
  name: string;
  place: number;
  /** The target whose answer is in Redis. */
  answeredBy?: { upstream: string; model: string };
}

export interface LineAnswer {
  status: number;
  requestId: string;
  body: Buffer;
  /** 0 if the gateway does not say when to try again. */
  retryAfterMs: number;
  /** Another try would end like this one. */
  isFinal: boolean;
}

/**
 * `unreachable`: no ingress took the request. `broken`: the connection broke, so the line may have
 * been answered.
 */
export type SendResult = LineAnswer | "unreachable" | "broken" | "too_large";

/** Rejects when its signal is aborted. */
export type SendLine = (request: LineRequest, signal: AbortSignal) => Promise<SendResult>;

export interface LineSenderOptions {
  ingressUrl: string;
  secret: string;
  connectionsMax: number;
  clock: Clock;
}

export class LineSender implements AsyncDisposable {
  readonly #options: LineSenderOptions;
  readonly #pool: Pool;
  /** The path of the ingress's address. */
  readonly #prefix: string;

  constructor(options: LineSenderOptions) {
    const { origin, pathname } = new URL(options.ingressUrl);
    this.#options = options;
    this.#prefix = pathname.replace(/\/$/, "");
    this.#pool = new Pool(origin, {
      connections: options.connectionsMax,
      headersTimeout: lineMs,
      bodyTimeout: lineMs,
    });
  }

  readonly send: SendLine = async (line, signal) => {
    try {
      return await this.#send(line, signal);
    } catch (error) {
      signal.throwIfAborted();
      return isUnsent(error) ? "unreachable" : "broken";
    }
  };

  async #send(line: LineRequest, signal: AbortSignal): Promise<SendResult> {
    const { secret, clock } = this.#options;
    const url = `${this.#prefix}${line.path}`;
    const claims = {
      key: line.keyHash,
      batch: line.batch,
      generation: line.generationId,
      receivedAt: String(line.receivedAt),
      sends: String(line.sends),
      ...(line.vendorLine !== undefined && { vendorLine: JSON.stringify(line.vendorLine) }),
    };
    const signed = { receiver: "ingress", method: "POST", url } as const;
    const { statusCode, headers, body } = await this.#pool.request({
      method: "POST",
      path: url,
      headers: {
        "content-type": "application/json",
        [internalSignatureHeader]: signInternal(secret, signed, claims, clock.epoch()),
      },
      body: line.body,
      signal,
    });
    const bytes = await boundedBytes(body, lineAnswerBytesMax);
    if (bytes === undefined) return "too_large";
    return {
      status: statusCode,
      requestId: String(headers["x-request-id"] ?? ""),
      body: bytes,
      retryAfterMs: 1_000 * (Number(headers["retry-after"]) || 0),
      isFinal: headers["x-should-retry"] === "false",
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#pool.destroy();
  }
}

const unsentCodes: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

const isUnsent = (error: unknown): boolean => unsentCodes.has((error as { code?: unknown }).code);
