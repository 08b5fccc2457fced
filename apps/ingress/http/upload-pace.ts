/** Tells when the sender of a body is too slow: more than a grace behind the minimum rate. A burst earns no more than that grace. */
import type { IngressConfig } from "../config.ts";

/** How often within the grace a sender is looked at; and how often at least, in milliseconds. */
const looksPerGrace = 4;
const lookMsMax = 1_000;

export type UploadLimits = Pick<IngressConfig, "uploadBytesPerSecondMin" | "uploadGraceMs">;

/** How often `isTooSlow` is to be called, in milliseconds. */
export const uploadLookMsOf = ({ uploadGraceMs }: UploadLimits): number =>
  Math.min(lookMsMax, uploadGraceMs / looksPerGrace);

/** Times are milliseconds of one clock that never goes back. */
export class UploadPace {
  readonly #limits: UploadLimits;
  #bytes: number;
  #lookedAt: number;
  #graceMs: number;

  /** `bytes` have arrived before the upload begins. */
  constructor(limits: UploadLimits, bytes: number, now: number) {
    this.#limits = limits;
    this.#bytes = bytes;
    this.#lookedAt = now;
    this.#graceMs = limits.uploadGraceMs;
  }

  /** So many bytes have arrived by now. Time in which this process did not look is not held against the sender. */
  isTooSlow(bytes: number, now: number): boolean {
    const { uploadBytesPerSecondMin, uploadGraceMs } = this.#limits;
    const earnedMs = ((bytes - this.#bytes) / uploadBytesPerSecondMin) * 1_000;
    const passedMs = Math.min(now - this.#lookedAt, 2 * uploadLookMsOf(this.#limits));
    this.#graceMs = Math.min(uploadGraceMs, this.#graceMs + earnedMs - passedMs);
    this.#bytes = bytes;
    this.#lookedAt = now;
    return this.#graceMs <= 0;
  }
}
