/**
 * Where the bytes of files are. An object is written once, as a whole, and is never changed. Two
 * kinds of store implement this: a directory, and a bucket of a server that speaks S3.
 */
import type { Readable } from "node:stream";

export interface ObjectStore {
  /**
   * Stores an object as its bytes arrive, in bounded memory. Resolves when it is durable; of an
   * object whose source fails, nothing can be read.
   */
  put(name: string, source: AsyncIterable<Uint8Array>): Promise<void>;
  /** The object from its byte `start` on; undefined if there is none. */
  get(name: string, start?: number): Promise<Readable | undefined>;
  /** Removes an object, and the remains of one that was not written to its end. */
  remove(name: string): Promise<void>;
}

/**
 * The names of objects: safe as a path and in a URL. Those with a slash are paths as they are.
 * Throws for another text.
 */
export function checkedName(name: string): string {
  if (!/^[a-z0-9](?:[a-z0-9-]|[/.](?=[a-z0-9])){3,200}$/.test(name)) throw new RangeError("not the name of an object");
  return name;
}
