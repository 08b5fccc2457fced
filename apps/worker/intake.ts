/**
 * How many generations this process takes, by what it has left: the limit grows while the event
 * loop and the memory allow it, and stops before those that run suffer. A pure state machine:
 * measurements come in, a limit goes out.
 */
import { intakeFirst, intakeGrowth, intakeMin, intakeShareMax } from "./bounds.ts";

/** The resources that a process used since the last measurement. */
export interface Usage {
  /** The share of the time that the event loop was busy, from 0 to 1. */
  eventLoop: number;
  /** The share of the memory that it may use, from 0 to 1. */
  memory: number;
}

/** Why no more generations are taken. */
export type Saturated = "event loop" | "memory";

export class Intake {
  #limit = intakeFirst;
  #saturated: Saturated | undefined;

  /** Generations that the process holds at most. */
  get limit(): number {
    return this.#limit;
  }

  /** Undefined while the limit is not what stops it. */
  get saturated(): Saturated | undefined {
    return this.#saturated;
  }

  /**
   * `running`: the generations that it has. Each is taken to cost as much as the average of them,
   * and one that has just begun costs less than it will, so the limit grows in steps.
   */
  measured({ eventLoop, memory }: Usage, running: number): void {
    const [share, name] = memory > eventLoop ? ([memory, "memory"] as const) : ([eventLoop, "event loop"] as const);
    this.#saturated = share > intakeShareMax ? name : undefined;
    if (this.#saturated !== undefined) this.#limit = Math.max(running, intakeMin);
    else {
      const affordable = Math.floor((running * intakeShareMax) / Math.max(share, 0.01));
      const next = Math.ceil(Math.max(running, intakeFirst / intakeGrowth) * intakeGrowth);
      this.#limit = Math.max(intakeMin, running < intakeMin ? next : Math.min(affordable, next));
    }
  }
}
