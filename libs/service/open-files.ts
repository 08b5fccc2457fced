/**
 * Counts this process's open files and sockets against their limit. Only Linux reports them;
 * elsewhere there is never a shortage.
 */
import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { openFilesShareMax } from "./bounds.ts";

export class OpenFiles {
  readonly #max = openFilesMax();
  #open = 0;
  #counting = false;

  /** Call it about once a second. */
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

  /** Describes the shortage in a few words; undefined without one. */
  get shortage(): string | undefined {
    return this.#open > openFilesShareMax * this.#max ? `${this.#open} of ${this.#max} open files` : undefined;
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
