/**
 * Keeps the event loop responsive while many bytes are moved: a mover yields to other work after
 * every megabyte.
 */

import { setImmediate } from "node:timers/promises";
import { writtenAtOnceBytes } from "../bounds.ts";

/** One for all movers of a worker. */
export class Pace {
  #bytes = 0;
  #yielding: Promise<void> | undefined;

  /** Counts moved bytes. Wait for the returned promise, if there is one, before more are moved. */
  moved(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes;
    if (this.#bytes < writtenAtOnceBytes) return undefined;
    this.#yielding ??= setImmediate().then(() => {
      this.#bytes = 0;
      this.#yielding = undefined;
    });
    return this.#yielding;
  }
}
