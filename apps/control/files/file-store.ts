/**
 * The files of accounts: rows in the database, and sealed bytes in the object store. A row is there
 * before its object and until after it, so no object is ever without one.
 */
import { createSecretKey, type KeyObject, randomBytes, randomInt } from "node:crypto";
import { Readable } from "node:stream";
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Failure } from "#dialects/errors.ts";
import type { ObjectStore } from "#objects/object-store.ts";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import {
  fileRenewedEveryMs,
  fileReservedMax,
  fileReservedMin,
  fileSilenceMs,
  filesSweptEveryMs,
  filesSweptTogether,
} from "../bounds.ts";
import type { ControlConfig } from "../config.ts";
import type { Database } from "../database/database.ts";
import { seal, unseal } from "../database/sealing.ts";
import type { FileRow } from "../database/tables.ts";
import { openChunks, sealChunks, sealedStartOf } from "./sealed-chunks.ts";

export interface FileStoreOptions {
  database: Database;
  objects: ObjectStore;
  /** The keys of files are sealed with keys that are derived from it. */
  secret: string;
  config: Pick<ControlConfig, "fileBytesMax" | "accountFileBytesMax" | "accountFilesMax">;
  clock: Clock;
  log: Logger;
}

export type FileOwner = Pick<FileRow, "account" | "key_id">;
export type FileDetails = Pick<FileRow, "name" | "purpose" | "media_type" | "expires_at">;

/** A result of an operation on files: its value, or the reason why there is none. */
export type FileResult<Value> = { value: Value } | { failure: Failure };

export interface FilesPage {
  purpose?: string | undefined;
  limit: number;
  order: "asc" | "desc";
  /** Files after this one. */
  after?: FileRow | undefined;
}

export class FileStore {
  readonly #options: FileStoreOptions;

  constructor(options: FileStoreOptions) {
    this.#options = options;
  }

  /** Deletes expired files, until the task is closed. */
  startSweeping(): PeriodicTask {
    return new PeriodicTask({
      everyMs: filesSweptEveryMs,
      isImmediate: true,
      run: () => this.sweep(),
      log: this.#options.log,
      level: "warn",
      failed: "expired files could not be deleted",
      works: "expired files are deleted again",
    });
  }

  /** A new file that nobody sees before `finish`. Its bytes count against the account's quota. */
  async begin(owner: FileOwner, announcedBytes = fileReservedMin): Promise<FileResult<ArrivingFile>> {
    const { database, secret, clock, config } = this.#options;
    const dataKey = randomBytes(32);
    const now = clock.epoch();
    const row: FileRow = {
      ...owner,
      id: Array.from({ length: 24 }, () => "0123456789abcdefghijklmnopqrstuvwxyz"[randomInt(36)]).join(""),
      name: "",
      purpose: "",
      media_type: "",
      bytes: 0n,
      state: "arriving",
      sealed_key: seal(sealingKeyOf(secret, owner), dataKey.toString("base64")),
      created_at: new Date(now),
      expires_at: new Date(now + fileSilenceMs),
    };
    const failure = await database.transaction().execute(async (transaction) => {
      const { files, bytes } = await usageOf(transaction, owner.account);
      if (files >= config.accountFilesMax)
        return quotaExceeded(`stores ${files} files, as many as it may; delete some of them`);
      const shortage = quotaShortage(bytes, announcedBytes, config.accountFileBytesMax);
      if (shortage === undefined)
        await transaction
          .insertInto("files")
          .values({ ...row, bytes: BigInt(announcedBytes) })
          .execute();
      return shortage;
    });
    if (failure !== undefined) return { failure };
    return { value: new ArrivingFile(this.#options, row, createSecretKey(dataKey), announcedBytes) };
  }

  /** Stores a stream as a file. */
  async create(
    owner: FileOwner,
    details: FileDetails,
    source: AsyncIterable<Uint8Array>,
  ): Promise<FileResult<FileRow>> {
    const begun = await this.begin(owner);
    if ("failure" in begun) return begun;
    const failure = await begun.value.write(source);
    return failure === undefined ? begun.value.finish(details) : { failure };
  }

  /** A file of the account; undefined if it has none with this id. */
  find(account: string, id: string): Promise<FileRow | undefined> {
    return this.#visible(account).where("id", "=", id).executeTakeFirst();
  }

  /** One file more than `limit`, if there are more. */
  list(account: string, { purpose, limit, order, after }: FilesPage): Promise<FileRow[]> {
    let query = this.#visible(account)
      .orderBy("created_at", order)
      .orderBy("id", order)
      .limit(limit + 1);
    if (purpose !== undefined) query = query.where("purpose", "=", purpose);
    if (after !== undefined)
      query = query.where(
        sql<boolean>`(created_at, id) ${sql.raw(order === "asc" ? ">" : "<")} (${after.created_at}, ${after.id})`,
      );
    return query.execute();
  }

  /**
   * The bytes of a file from its byte `start` on; undefined if the object store has lost it. The
   * stream fails if they were changed.
   */
  async open(row: FileRow, start = 0): Promise<Readable | undefined> {
    const { objects, secret } = this.#options;
    const dataKey = unseal(sealingKeyOf(secret, row), row.sealed_key);
    if (dataKey === undefined) throw new Error("the key of a file was sealed with another AUTH_SECRET");
    const sealed = await objects.get(row.id, sealedStartOf(start));
    if (sealed === undefined) return undefined;
    const opened = openChunks(createSecretKey(Buffer.from(dataKey, "base64")), sealed, start);
    return Readable.from(opened, { objectMode: false });
  }

  /** Deletes a file of the account and its bytes. False if it has none with this id. */
  async remove(account: string, id: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#options.database
      .updateTable("files")
      .set({ state: "deleted", expires_at: new Date(this.#options.clock.epoch()) })
      .where("account", "=", account)
      .where("id", "=", id)
      .where("state", "=", "ready")
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return false;
    await removeFiles(this.#options, [id]);
    return true;
  }

  /**
   * Deletes some files whose time is over. Rejects when the database or the store does not answer.
   */
  async sweep(): Promise<void> {
    const { database, clock } = this.#options;
    const rows = await database
      .selectFrom("files")
      .select("id")
      .where("expires_at", "<=", new Date(clock.epoch()))
      .limit(filesSweptTogether)
      .execute();
    await removeFiles(
      this.#options,
      rows.map(({ id }) => id),
    );
  }

  #visible(account: string) {
    const { database, clock } = this.#options;
    return database
      .selectFrom("files")
      .selectAll()
      .where("account", "=", account)
      .where("state", "=", "ready")
      .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", new Date(clock.epoch()))]));
  }
}

/** A file while its bytes arrive. */
class ArrivingFile {
  readonly #options: FileStoreOptions;
  readonly #row: FileRow;
  readonly #dataKey: KeyObject;
  #reservedBytes: number;
  #bytes = 0;
  #renewedAt: number;

  constructor(options: FileStoreOptions, row: FileRow, dataKey: KeyObject, reservedBytes: number) {
    this.#options = options;
    this.#row = row;
    this.#dataKey = dataKey;
    this.#reservedBytes = reservedBytes;
    this.#renewedAt = options.clock.now();
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Stores the bytes. Returns why they cannot be stored; rejects when the source, the object store
   * or the database fails. In all these cases nothing is left of the file.
   */
  async write(source: AsyncIterable<Uint8Array>): Promise<Failure | undefined> {
    try {
      await this.#options.objects.put(this.#row.id, sealChunks(this.#dataKey, this.#counted(source)));
      return undefined;
    } catch (error) {
      await this.abandon().catch(() => undefined);
      if (error instanceof Stopped) return error.failure;
      throw error;
    }
  }

  /** The file as others see it from now on. */
  async finish(details: FileDetails): Promise<FileResult<FileRow>> {
    const row = await this.#options.database
      .updateTable("files")
      .set({ ...details, bytes: BigInt(this.#bytes), state: "ready" })
      .where("id", "=", this.#row.id)
      .where("state", "=", "arriving")
      .returningAll()
      .executeTakeFirst();
    return row === undefined ? { failure: tooSlow } : { value: row };
  }

  /** Nothing is left of the file. */
  abandon(): Promise<void> {
    return removeFiles(this.#options, [this.#row.id]);
  }

  async *#counted(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const bytes of source) {
      this.#bytes += bytes.length;
      const failure = await this.#reserve();
      if (failure !== undefined) throw new Stopped(failure);
      yield bytes;
    }
  }

  /** Reserves what has arrived, and lets the sweep know that more arrives. */
  async #reserve(): Promise<Failure | undefined> {
    const { database, config, clock } = this.#options;
    if (this.#bytes > config.fileBytesMax) return tooLarge(config.fileBytesMax);
    const isDue = clock.now() - this.#renewedAt > fileRenewedEveryMs;
    const isFull = this.#bytes > this.#reservedBytes;
    if (!(isDue || isFull)) return undefined;
    const { id, account } = this.#row;
    const step = Math.min(fileReservedMax, Math.max(fileReservedMin, this.#bytes));
    const more = isFull ? this.#bytes - this.#reservedBytes + step : 0;
    return database.transaction().execute(async (transaction) => {
      const usage = isFull ? await usageOf(transaction, account) : undefined;
      const shortage = usage && quotaShortage(usage.bytes, more, config.accountFileBytesMax);
      if (shortage !== undefined) return shortage;
      const { numUpdatedRows } = await transaction
        .updateTable("files")
        .set({
          bytes: BigInt(this.#reservedBytes + more),
          expires_at: new Date(clock.epoch() + fileSilenceMs),
        })
        .where("id", "=", id)
        .where("state", "=", "arriving")
        .executeTakeFirst();
      if (numUpdatedRows === 0n) return tooSlow;
      this.#reservedBytes += more;
      this.#renewedAt = clock.now();
      return undefined;
    });
  }
}

/** Ends a stream that is being stored. */
class Stopped extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** A key of the account. */
const sealingKeyOf = (secret: string, { account }: Pick<FileRow, "account">) => ({
  secret,
  salt: account,
  purpose: "file",
});

/** The object goes first: its row finds it again if that fails. */
async function removeFiles({ objects, database }: FileStoreOptions, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await objects.remove(id);
    await database.deleteFrom("files").where("id", "=", id).execute();
  }
}

/** The present files of the account. Locks the account, so that nobody else reserves meanwhile. */
async function usageOf(transaction: Database, account: string): Promise<{ files: number; bytes: number }> {
  await transaction.selectFrom("accounts").select("id").where("id", "=", account).forUpdate().executeTakeFirstOrThrow();
  const { files, bytes } = await transaction
    .selectFrom("files")
    .select((select) => [select.fn.countAll<bigint>().as("files"), select.fn.sum<string | null>("bytes").as("bytes")])
    .where("account", "=", account)
    .executeTakeFirstOrThrow();
  return { files: Number(files), bytes: Number(bytes ?? 0) };
}

const quotaShortage = (present: number, more: number, bytesMax: number): Failure | undefined =>
  present + more > bytesMax
    ? quotaExceeded(`may store ${bytesMax} bytes of files, of which ${present} are in use; delete some of them`)
    : undefined;

const quotaExceeded = (text: string): Failure => ({ code: "invalid_request", message: `The account ${text}.` });

export const tooLarge = (bytesMax: number): Failure => ({
  code: "body_too_large",
  message: `The file is larger than ${bytesMax} bytes.`,
});

const tooSlow: Failure = {
  code: "request_timeout",
  message: "The file arrived with too long a pause; send it again.",
};
