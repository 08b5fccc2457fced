/** The parts of control that batches use. */
import type { Clock } from "#service/clock.ts";
import type { Database } from "../database/database.ts";
import type { FileRow } from "../database/tables.ts";
import type { BatchFiles, BatchObjects } from "./ports.ts";

interface BatchBounds {
  /** Lines of one batch; by default as many as its vendor allows. */
  linesMax: number | undefined;
  /** The estimated tokens of all batches of an account that are not over. */
  tokensMax: number;
  /** Batches of an account that are not over. */
  batchesMax: number;
  /** How long the end of a batch waits for the usage of its answers. */
  usageWaitMs: number;
}

export interface BatchContext {
  database: Database;
  objects: BatchObjects;
  files: BatchFiles;
  clock: Clock;
  bounds: BatchBounds;
  /** Whether a key may use a model; none if the key does not exist any more. */
  modelsOf(keyId: string): Promise<(model: string) => boolean>;
}

/** The routes of batches use these too. */
export interface BatchService extends BatchContext {
  findFile(account: string, id: string): Promise<FileRow | undefined>;
  /** There is work for the runner. */
  wake(): void;
}
