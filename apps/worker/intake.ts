/**
 * How many generations this process takes, by what it has left: the limit grows while the event
 * loop, the memory and the open files allow it, and stops before those that run suffer. A pure
 * state machine: measurements come in, a limit goes out.
 *
 * A busy event loop alone does not stop it: the busier the loop, the more work shares each of its
 * turns. Those that run suffer when its turns become long.
 */
import {
  intakeBusyGrowth,
  intakeFirst,
  intakeGrowth,
  intakeMin,
  intakeShareMax,
  intakeTurnMsMax,
  paceMsMax,
  paceMsMin,
  paceShareMax,
  paceShareMin,
  paceStepMs,
} from "./bounds.ts";

/** The resources that a process used since the last measurement. */
export interface Usage {
  /** The share of the time that the event loop was busy, from 0 to 1. */
  eventLoop: number;
  /** The mean duration of a turn of the event loop, in milliseconds. */
  turnMs: number;
  /** The share of the memory that it may use, from 0 to 1. */
  memory: number;
  /** How many more generations may open a socket; infinite without a limit. */
  filesLeft: number;
}

/** Below this share, what a process uses says little. */
const loadMin = 0.01;
/** The weight of a measurement: about a second of them counts. */
const loadSmoothing = 0.1;

/** Why no more generations are taken. */
export type Saturated = "event loop" | "memory" | "open files";

export class Intake {
  #limit = intakeFirst;
  #saturated: Saturated | undefined;
  #isBusy = false;
  /** The share of what the process can bear that is in use, over the last second or so. */
  #load = 0;
  /** The share of the memory that is in use without generations. */
  #idleMemory = 0;
  #running = 0;
  #paceMs = 0;

  /** `filesLeft`: as in `Usage`, before the first measurement. */
  constructor(filesLeft: number = Number.POSITIVE_INFINITY) {
    this.#limit = Math.max(intakeMin, Math.min(intakeFirst, filesLeft));
  }

  /** Generations that the process holds at most. */
  get limit(): number {
    return this.#limit;
  }

  /**
   * Generations that the process can bear, at what those that run take on average; infinite while
   * it has too few to tell. The limit is another number: it grows in steps, as far as it is used.
   */
  get capacity(): number {
    return this.#running < intakeMin ? Number.POSITIVE_INFINITY : Math.round(this.#running / this.#load);
  }

  /** Undefined while the limit is not what stops it. */
  get saturated(): Saturated | undefined {
    return this.#saturated;
  }

  /** Other workers should take what they can. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /**
   * The interval between two reads of a stream, in milliseconds: it grows while the event loop has
   * no time left, and is 0 while it has some for each chunk.
   */
  get paceMs(): number {
    return this.#paceMs < paceMsMin ? 0 : this.#paceMs;
  }

  /**
   * `running`: the generations that it has. Each is taken to cost as much as the average of them,
   * and one that has just begun costs less than it will, so the limit grows in steps.
   */
  measured({ eventLoop, turnMs, memory, filesLeft }: Usage, running: number): void {
    this.#running = running;
    if (running < intakeMin) this.#idleMemory = Math.min(memory, intakeShareMax / 2);
    const memoryLoad = (memory - this.#idleMemory) / (intakeShareMax - this.#idleMemory);
    const load = Math.max(eventLoop / intakeShareMax, memoryLoad, turnMs / intakeTurnMsMax, loadMin);
    this.#load = running < intakeMin ? load : this.#load + (load - this.#load) * loadSmoothing;
    this.#saturated =
      memory > intakeShareMax
        ? "memory"
        : turnMs > intakeTurnMsMax
          ? "event loop"
          : filesLeft <= 0
            ? "open files"
            : undefined;
    if (eventLoop > paceShareMax) this.#paceMs = Math.min(this.#paceMs + paceStepMs, paceMsMax);
    else if (eventLoop < paceShareMin) this.#paceMs = Math.max(this.#paceMs - paceStepMs, 0);
    this.#isBusy = this.#saturated !== undefined || eventLoop > intakeShareMax;
    this.#limit = Math.max(intakeMin, Math.min(this.#affordable({ eventLoop, memory }, running), running + filesLeft));
  }

  #affordable({ eventLoop, memory }: Pick<Usage, "eventLoop" | "memory">, running: number): number {
    if (this.#saturated !== undefined) return running;
    const least = Math.ceil(running * intakeBusyGrowth);
    if (this.#isBusy) return least;
    const most = Math.ceil(Math.max(running, intakeFirst / intakeGrowth) * intakeGrowth);
    if (running < intakeMin) return most;
    const affordable = Math.floor((running * intakeShareMax) / Math.max(memory, eventLoop, 0.01));
    return Math.min(Math.max(least, affordable), most);
  }
}
