/** Work that a process repeats, such as to compare, deliver or delete. */
import { OutageLog, type OutageLogOptions } from "./outage-log.ts";

export interface PeriodicTaskOptions extends OutageLogOptions {
  everyMs: number;
  /** Resolves to false where it could not try, which says nothing about an outage. */
  run(): Promise<unknown>;
  /** Runs at once too, instead of after `everyMs`. */
  isImmediate?: boolean;
}

/** Runs until `close`. One run at a time; a failure is logged, and the next run tries again. */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #outage: OutageLog;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | undefined;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
    this.#outage = new OutageLog(options);
    this.#timer = setInterval(() => void this.run(), options.everyMs);
    if (options.isImmediate) void this.run();
  }

  /** Runs now, unless it runs already; resolves at the end of the run. Never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(): Promise<void> {
    try {
      if ((await this.#options.run()) !== false) this.#outage.worked();
    } catch (error) {
      this.#outage.failed(error);
    }
  }

  /** Resolves at the end of the run that has begun, if any. */
  idle(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  /** Ends the repetition. A run that has begun goes on. */
  close(): void {
    clearInterval(this.#timer);
  }
}
