/**
 * How many generations this process takes, by what it has left: the limit grows while the event
 * loop and the memory allow it, and stops before those that run suffer. A pure state machine:
 * measurements come in, a limit goes out.
 *
 * A busy event loop alone does not stop it: the busier the loop, the more work shares each of its
 * turns. Those that run suffer when its turns become long.
 */
import {
  gatherShareMin,
  intakeBusyGrowth,
  intakeFirst,
  intakeGrowth,
  intakeMin,
  intakeShareMax,
  intakeTurnMsMax,
} from "./bounds.ts";

/** The resources that a process used since the last measurement. */
export interface Usage {
  /** The share of the time that the event loop was busy, from 0 to 1. */
  eventLoop: number;
  /** The mean duration of a turn of the event loop, in milliseconds. */
  turnMs: number;
  /** The share of the memory that it may use, from 0 to 1. */
  memory: number;
}

/** Why no more generations are taken. */
export type Saturated = "event loop" | "memory";

export class Intake {
  #limit = intakeFirst;
  #saturated: Saturated | undefined;
  #isBusy = false;
  #gathersChunks = false;

  /** Generations that the process holds at most. */
  get limit(): number {
    return this.#limit;
  }

  /** Undefined while the limit is not what stops it. */
  get saturated(): Saturated | undefined {
    return this.#saturated;
  }

  /** Other workers should take what they can. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** The event loop has no time left, so answers should send chunks together. */
  get gathersChunks(): boolean {
    return this.#gathersChunks;
  }

  /**
   * `running`: the generations that it has. Each is taken to cost as much as the average of them,
   * and one that has just begun costs less than it will, so the limit grows in steps.
   */
  measured({ eventLoop, turnMs, memory }: Usage, running: number): void {
    this.#saturated = memory > intakeShareMax ? "memory" : turnMs > intakeTurnMsMax ? "event loop" : undefined;
    this.#gathersChunks = eventLoop > gatherShareMin;
    this.#isBusy = this.#saturated !== undefined || eventLoop > intakeShareMax;
    if (this.#saturated !== undefined) this.#limit = Math.max(running, intakeMin);
    else {
      const least = Math.ceil(running * intakeBusyGrowth);
      const affordable = Math.floor((running * intakeShareMax) / Math.max(memory, eventLoop, 0.01));
      const most = Math.ceil(Math.max(running, intakeFirst / intakeGrowth) * intakeGrowth);
      const limit = this.#isBusy ? least : running < intakeMin ? most : Math.min(Math.max(least, affordable), most);
      this.#limit = Math.max(intakeMin, limit);
    }
  }
}
