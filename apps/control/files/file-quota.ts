/** How much an account stores, or an upload has in its parts, at most. */
import type { Failure } from "#dialects/errors.ts";
import type { Database } from "../database/database.ts";

interface QuotaBounds {
  account: string;
  /** The upload whose parts are counted; null for the account's files. */
  upload: string | null;
  filesMax: number;
  bytesMax: number;
}

export class FileQuota {
  readonly #bounds: QuotaBounds;

  constructor(bounds: QuotaBounds) {
    this.#bounds = bounds;
  }

  /**
   * Why so many more bytes and files would be too many; undefined if they are not. Locks the
   * account, so that nobody else reserves meanwhile.
   */
  async shortageOf(transaction: Database, moreBytes: number, moreFiles: number): Promise<Failure | undefined> {
    const { account, upload } = this.#bounds;
    await transaction
      .selectFrom("accounts")
      .select("id")
      .where("id", "=", account)
      .forUpdate()
      .executeTakeFirstOrThrow();
    const { files, bytes, filesMax, bytesMax } = await this.read(transaction);
    const subject = upload === null ? "account" : "upload";
    if (moreFiles > 0 && files + moreFiles > filesMax)
      return quotaExceeded(`The ${subject} has ${files} files, as many as it may; delete some of them.`);
    if (bytes + moreBytes > bytesMax)
      return quotaExceeded(`The ${subject} may have ${bytesMax} bytes of files, of which ${bytes} are in use.`);
    return undefined;
  }

  /** The files so far, those that arrive included, and the bounds. */
  async read(database: Database): Promise<{ files: number; bytes: number; filesMax: number; bytesMax: number }> {
    const { account, upload, filesMax, bytesMax } = this.#bounds;
    const { files, bytes } = await database
      .selectFrom("files")
      .select(({ fn }) => [fn.countAll<bigint>().as("files"), fn.sum<string | null>("bytes").as("bytes")])
      .where("account", "=", account)
      .where("upload", "is not distinct from", upload)
      .executeTakeFirstOrThrow();
    return { files: Number(files), bytes: Number(bytes ?? 0), filesMax, bytesMax };
  }
}

const quotaExceeded = (message: string): Failure => ({ code: "invalid_request", message });
