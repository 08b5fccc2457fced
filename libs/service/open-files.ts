/** How many files and sockets this process has open, and how many it may have. Linux says so; elsewhere nothing is known, and nothing is near its limit. */
import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";

/** Past this part of the limit a process should take no more connections: the rest is for those to Redis and for its files. */
const shareMax = 0.9;

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
        // One of them is the directory itself.
        ({ length }) => length - 1,
        ({ code }: NodeJS.ErrnoException) => (code === "EMFILE" ? this.#max : 0),
      )
      .then((open) => {
        this.#open = open;
        this.#counting = false;
      });
  }

  /** What is near the limit, in a few words; undefined while enough is left. */
  get shortage(): string | undefined {
    return this.#open > shareMax * this.#max ? `${this.#open} of ${this.#max} open files` : undefined;
  }
}

/** Node has raised the soft limit to the hard one by now. */
function openFilesMax(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? Number.POSITIVE_INFINITY,
    );
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
