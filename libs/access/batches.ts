/** Gathers calls about the same subject, so that they share one call of a script. */
import { LiveMap } from "#service/live-map.ts";
import { batchedCallsMax } from "./bounds.ts";

interface Batch<Item, Result> {
  readonly items: Item[];
  readonly results: Promise<Result[]>;
}

export class Batches<Subject extends object, Item, Result> {
  readonly #run: (subject: Subject, items: readonly Item[]) => Promise<Result[]>;
  readonly #later: (start: () => void) => void;
  readonly #open = new LiveMap<Subject, Batch<Item, Result>>();

  /**
   * `run` answers a batch in the order of its items; if it rejects, all their calls do. It starts
   * when `later` calls its argument.
   */
  constructor(
    run: (subject: Subject, items: readonly Item[]) => Promise<Result[]>,
    later: (start: () => void) => void,
  ) {
    this.#run = run;
    this.#later = later;
  }

  async add(subject: Subject, item: Item): Promise<Result> {
    const open = this.#open.get(subject);
    const batch = open ?? this.#begin(subject);
    const place = batch.items.push(item) - 1;
    if (batch.items.length === batchedCallsMax) this.#open.delete(subject);
    return (await batch.results)[place] as Result;
  }

  #begin(subject: Subject): Batch<Item, Result> {
    const { promise: results, resolve, reject } = Promise.withResolvers<Result[]>();
    const batch: Batch<Item, Result> = { items: [], results };
    this.#open.set(subject, batch);
    this.#later(() => {
      if (this.#open.get(subject) === batch) this.#open.delete(subject);
      this.#run(subject, batch.items).then(resolve, reject);
    });
    return batch;
  }
}
