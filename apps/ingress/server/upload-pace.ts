/**
 * Detects a sender whose body arrives too slowly: further behind the minimum rate than the grace
 * allows. A burst earns no more than the grace.
 */
import { uploadCheckMsMax } from "../common/bounds.ts";
import type { IngressConfig } from "../common/config.ts";

/** How often the pace is checked within one grace. */
const checksPerGrace = 4;

export type UploadLimits = Pick<IngressConfig, "uploadBytesPerSecondMin" | "uploadGraceMs">;

/** Milliseconds between two calls of `isTooSlow`. */
export const uploadCheckMsOf = ({ uploadGraceMs }: UploadLimits): number =>
  Math.min(uploadCheckMsMax, uploadGraceMs / checksPerGrace);

/** Times are milliseconds of one clock that never goes back. */
export class UploadPace {
  readonly #limits: UploadLimits;
  #bytes: number;
  #checkedAt: number;
  #graceMs: number;

  /** `bytes` have arrived before the upload begins. */
  constructor(limits: UploadLimits, bytes: number, now: number) {
    this.#limits = limits;
    this.#bytes = bytes;
    this.#checkedAt = now;
    this.#graceMs = limits.uploadGraceMs;
  }

  /**
   * `bytes` have arrived in total. Time in which this process was too busy to check does not count
   * against the sender.
   */
  isTooSlow(bytes: number, now: number): boolean {
    const { uploadBytesPerSecondMin, uploadGraceMs } = this.#limits;
    const earnedMs = ((bytes - this.#bytes) / uploadBytesPerSecondMin) * 1_000;
    const passedMs = Math.min(now - this.#checkedAt, 2 * uploadCheckMsOf(this.#limits));
    this.#graceMs = Math.min(uploadGraceMs, this.#graceMs + earnedMs - passedMs);
    this.#bytes = bytes;
    this.#checkedAt = now;
    return this.#graceMs <= 0;
  }
}
