/** Shares the event loop: whoever moves many bytes lets all else have its turn now and then. */
import { setImmediate } from "node:timers/promises";

/** Some milliseconds of reading, encoding and writing. */
const bytesAtOnce = 1 << 20;

/** One for all who move bytes in a process. */
export class Pace {
  #bytes = 0;
  #turn: Promise<void> | undefined;

  /** So many bytes were moved. Wait for what it returns, if anything, before more are. */
  moved(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes;
    if (this.#bytes < bytesAtOnce) return undefined;
    this.#turn ??= setImmediate().then(() => {
      this.#bytes = 0;
      this.#turn = undefined;
    });
    return this.#turn;
  }
}
