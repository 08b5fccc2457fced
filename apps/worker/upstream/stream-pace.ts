/**
 * How often the streams of answers are read and sent. A busy process takes several chunks of a
 * stream at once: fewer and larger reads, frames and writes leave processor time for all answers.
 */
import { type Clock, systemClock } from "#service/clock.ts";
import { paceTickMs } from "../bounds.ts";

/** A connection that can stop being read. Neither function may throw. */
export interface PacedStream {
  readonly stop: () => void;
  readonly start: () => void;
}

/** One for all streams of a worker. */
export class StreamPace {
  /** Milliseconds between two reads of a stream; 0 while the process has time for each chunk. */
  intervalMs = 0;
  readonly #clock: Clock;
  #justRead: PacedStream[] = [];
  readonly #waiting: { act: () => void; at: number }[] = [];
  readonly #onTurn = () => {
    const streams = this.#justRead;
    this.#justRead = [];
    for (const stream of streams) {
      stream.stop();
      this.later(stream.start);
    }
  };
  readonly #onTime = () => {
    const now = this.#clock.now();
    const first = this.#waiting.findIndex(({ at }) => at > now + paceTickMs);
    const due = this.#waiting.splice(0, first < 0 ? this.#waiting.length : first);
    const next = this.#waiting[0];
    if (next !== undefined) setTimeout(this.#onTime, next.at - now);
    for (const { act } of due) act();
  };

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  /**
   * The stream was read, and may be read further in this turn of the event loop: over TLS, each
   * chunk is a read of its own. It stops at the end of the turn, and starts again after an
   * interval. Call it once in a turn.
   */
  wasRead(stream: PacedStream): void {
    if (this.#justRead.push(stream) === 1) setImmediate(this.#onTurn);
  }

  /**
   * Calls `act`, which must not throw, after an interval. All that wait share a timer, and those of
   * a few milliseconds act together.
   */
  later(act: () => void): void {
    const { intervalMs } = this;
    if (this.#waiting.push({ act, at: this.#clock.now() + intervalMs }) === 1) setTimeout(this.#onTime, intervalMs);
  }
}
