/**
 * Counts this process's open files and sockets against their limit. Only Linux reports them;
 * elsewhere there is never a shortage.
 */
import { readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { openFilesShareMax } from "./bounds.ts";

export class OpenFiles {
  readonly #max = openFilesMax();
  #open = countAtOnce();
  #counting = false;

  /**
   * Counts them in the background. Call it about once a second, or more often where few are left.
   */
  tick(): void {
    if (this.#counting || this.#max === Number.POSITIVE_INFINITY) return;
    this.#counting = true;
    readdir("/proc/self/fd")
      .then(
        // One entry is the open directory itself.
        ({ length }) => length - 1,
        ({ code }: NodeJS.ErrnoException) => (code === "EMFILE" ? this.#max : 0),
      )
      .then((open) => {
        this.#open = open;
        this.#counting = false;
      });
  }

  /**
   * How many more may open, as of the last count, before there is a shortage; below zero in one.
   * Infinite without a limit.
   */
  get left(): number {
    return Math.floor(openFilesShareMax * this.#max) - this.#open;
  }

  /** Describes the shortage in a few words; undefined without one. */
  get shortage(): string | undefined {
    return this.left < 0 ? `${this.#open} of ${this.#max} open files` : undefined;
  }
}

function countAtOnce(): number {
  try {
    return readdirSync("/proc/self/fd").length - 1;
  } catch {
    return 0;
  }
}

/** Node raises the soft limit to the hard limit when it starts. */
function openFilesMax(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? Number.POSITIVE_INFINITY,
    );
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
