/** The storage that batches use. Every object and file is one account's. */

/** Sealed objects by name. A written object is durable. */
export interface BatchObjects {
  /** Replaces an object of the same name. */
  write(account: string, name: string, bytes: Buffer): Promise<void>;
  /**
   * Undefined if there is none that can be read: it may be lost, changed, or sealed with another
   * AUTH_SECRET.
   */
  read(account: string, name: string): Promise<Buffer | undefined>;
  /** Ignores names without an object. */
  delete(account: string, names: readonly string[]): Promise<void>;
}

export interface NewFile {
  id: string;
  account: string;
  keyId: string;
  filename: string;
  expiresAt: Date | undefined;
}

/** The callers' files. */
export interface BatchFiles {
  /** Whether the account may store no further files. Results are stored all the same. */
  isFull(account: string): Promise<boolean>;
  /** Undefined for a file that does not exist, or is another account's. */
  open(account: string, id: string): Promise<{ bytes: number; content: AsyncIterable<Buffer> } | undefined>;
  /** Creates a file of results; one with the same id is replaced. */
  create(file: NewFile, content: AsyncIterable<Buffer>): Promise<void>;
  /** Ignores a file that does not exist. */
  remove(account: string, id: string): Promise<void>;
}
