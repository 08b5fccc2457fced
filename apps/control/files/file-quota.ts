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
    const { account, upload, filesMax, bytesMax } = this.#bounds;
    await transaction
      .selectFrom("accounts")
      .select("id")
      .where("id", "=", account)
      .forUpdate()
      .executeTakeFirstOrThrow();
    const usage = await transaction
      .selectFrom("files")
      .select(({ fn }) => [fn.countAll<bigint>().as("files"), fn.sum<string | null>("bytes").as("bytes")])
      .where("account", "=", account)
      .where("upload", "is not distinct from", upload)
      .executeTakeFirstOrThrow();
    const subject = upload === null ? "account" : "upload";
    const [files, bytes] = [Number(usage.files), Number(usage.bytes ?? 0)];
    if (moreFiles > 0 && files + moreFiles > filesMax)
      return quotaExceeded(`The ${subject} has ${files} files, as many as it may; delete some of them.`);
    if (bytes + moreBytes > bytesMax)
      return quotaExceeded(`The ${subject} may have ${bytesMax} bytes of files, of which ${bytes} are in use.`);
    return undefined;
  }
}

const quotaExceeded = (message: string): Failure => ({ code: "invalid_request", message });
