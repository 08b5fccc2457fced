/**
 * Logs what fails again and again while something is away: the first failure in full, then one line
 * a minute with their number, and one line when it works again.
 */
import type { Logger } from "pino";
import { outageLoggedEveryMs } from "./bounds.ts";
import { type Clock, systemClock } from "./clock.ts";

export interface OutageLogOptions {
  log: Logger;
  level: "warn" | "error";
  /** The message of a failure. */
  failed: string;
  /** The message of the end. */
  works: string;
  clock?: Clock;
}

export class OutageLog {
  readonly #options: OutageLogOptions;
  readonly #clock: Clock;
  #failures = 0;
  #loggedAt = 0;

  constructor(options: OutageLogOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  failed(error: unknown): void {
    const { log, level, failed } = this.#options;
    const now = this.#clock.now();
    this.#failures++;
    if (this.#failures > 1 && now - this.#loggedAt < outageLoggedEveryMs) return;
    this.#loggedAt = now;
    const { code, message } = error as { code?: string; message?: string };
    log[level](this.#failures === 1 ? { err: error } : { failures: this.#failures, reason: code ?? message }, failed);
  }

  /** Call it whenever it works. */
  worked(): void {
    const { log, works } = this.#options;
    if (this.#failures > 0) log.info({ failures: this.#failures }, works);
    this.#failures = 0;
  }
}
