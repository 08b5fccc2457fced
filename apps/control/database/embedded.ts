/**
 * The embedded Postgres (PGlite) as Kysely's dialect expects it. It runs in a thread; transactions
 * take turns.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { PGlite, PGliteQueryResults, PGliteTransaction } from "kysely";
import type { Task, TaskResult } from "./pglite-thread.ts";

type Waiting = PromiseWithResolvers<TaskResult>;

/**
 * Opens the database of a directory, which one process at a time may use: the caller holds a lock.
 * The first start creates it, which takes some seconds.
 */
export async function openEmbedded(directory: string): Promise<PGlite> {
  const worker = new Worker(new URL("./pglite-thread.ts", import.meta.url), { workerData: { directory } });
  const started = await Promise.race([
    once(worker, "message"),
    once(worker, "exit").then(() => {
      throw new Error("the embedded database ended while it started");
    }),
  ]);
  if (started[0] !== "ready") throw new Error("the embedded database did not start");
  return new Embedded(worker);
}

class Embedded implements PGlite {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #isClosing = false;
  /** Settles when nobody holds the database. */
  #turn: Promise<unknown> = Promise.resolve();
  closed = false;
  readonly ready = true;
  readonly waitReady = Promise.resolve();

  constructor(worker: Worker) {
    this.#worker = worker;
    let cause = new Error("the embedded database has ended");
    worker.on("message", (result: TaskResult) => this.#answered(result));
    worker.on("error", (error: Error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.closed = true;
      for (const { reject } of this.#waiting.values()) reject(cause);
      this.#waiting.clear();
      // Without its database the process is useless: it ends, and its supervisor starts another.
      if (!this.#isClosing)
        setImmediate(() => {
          throw cause;
        });
    });
  }

  query<Row>(sql: string, parameters: unknown[] = []): Promise<PGliteQueryResults<Row>> {
    return this.#alone(() => this.#run<Row>(sql, parameters));
  }

  transaction<Result>(work: (transaction: PGliteTransaction) => Promise<Result>): Promise<Result> {
    return this.#alone(async () => {
      const run = <Row>(sql: string, parameters: unknown[] = []) => this.#run<Row>(sql, parameters);
      const rollback = async () => void (await run("ROLLBACK"));
      await run("BEGIN");
      try {
        const result = await work({ query: run, rollback });
        await run("COMMIT");
        return result;
      } catch (error) {
        await rollback();
        throw error;
      }
    });
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.#isClosing = true;
    const exited = once(this.#worker, "exit");
    await this.#alone(async () => this.#worker.postMessage("close"));
    await exited;
  }

  #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #run<Row>(sql: string, parameters: readonly unknown[]): Promise<PGliteQueryResults<Row>> {
    if (this.closed) throw new Error("the embedded database has ended");
    const waiting = Promise.withResolvers<TaskResult>();
    const id = ++this.#lastId;
    this.#waiting.set(id, waiting);
    this.#worker.postMessage({ id, sql, parameters } satisfies Task);
    const { rows = [], affectedRows, error } = await waiting.promise;
    if (error !== undefined) throw Object.assign(new Error(error.message), error.fields);
    return { rows: rows as Row[], fields: [], ...(affectedRows !== undefined && { affectedRows }) };
  }

  #answered(result: TaskResult): void {
    this.#waiting.get(result.id)?.resolve(result);
    this.#waiting.delete(result.id);
  }
}
