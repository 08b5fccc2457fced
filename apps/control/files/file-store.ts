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
import { seal, unseal } from "#service/sealing.ts";
import {
  fileRenewedEveryMs,
  fileReservedMax,
  fileReservedMin,
  fileSilenceMs,
  filesSweptEveryMs,
  filesSweptTogether,
  uploadMs,
  uploadPartBytesMax,
  uploadPartsMax,
} from "../bounds.ts";
import type { ControlConfig } from "../config.ts";
import type { Database } from "../database/database.ts";
import type { FileRow } from "../database/tables.ts";
import { isStorable } from "../internal/form.ts";
import { FileQuota } from "./file-quota.ts";
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
export type FileDetails = Pick<FileRow, "name" | "purpose" | "media_type" | "expires_at"> &
  Partial<Pick<FileRow, "place">>;
export type UploadDetails = Pick<FileDetails, "name" | "purpose" | "media_type"> &
  Pick<FileRow, "bytes" | "life_seconds">;

export interface NewFile {
  /** The size that its sender announced, if any. */
  announcedBytes?: number | undefined;
  /** Chosen by the caller; a file with the same one is replaced. */
  id?: string | undefined;
  /** Counts against the quota, but is never refused: the gateway makes it. */
  isUnbounded?: boolean;
  /** The upload of which this is a part. */
  upload?: FileRow;
}

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

  /** A new file that nobody sees before `finish`. Its bytes count against its quota. */
  async begin(
    owner: FileOwner,
    { announcedBytes = fileReservedMin, id, upload, isUnbounded = false }: NewFile = {},
  ): Promise<FileResult<ArrivingFile>> {
    const { database, secret, clock } = this.#options;
    if (id !== undefined) await removeFiles(this.#options, [id]);
    const fileBytesMax = isUnbounded ? Number.POSITIVE_INFINITY : this.#options.config.fileBytesMax;
    const bytesMax = upload === undefined ? fileBytesMax : Math.min(uploadPartBytesMax, Number(upload.bytes));
    // The form around a part is none of its bytes.
    const reservedBytes = upload === undefined ? announcedBytes : Math.min(announcedBytes, bytesMax);
    const dataKey = createSecretKey(randomBytes(32));
    const now = clock.epoch();
    const row: FileRow = {
      ...owner,
      ...{ id: id ?? newIdOf(), name: "", purpose: "", media_type: "" },
      ...{ bytes: BigInt(reservedBytes), state: "arriving" },
      sealed_key: seal(sealingKeyOf(secret, owner), dataKey.export().toString("base64")),
      created_at: new Date(now),
      expires_at: new Date(now + fileSilenceMs),
      ...{ upload: upload?.id ?? null, place: null, life_seconds: null, parts: 0 },
    };
    const quota = isUnbounded ? unbounded(owner.account) : this.quotaOf(owner.account, upload);
    const failure = await database.transaction().execute(async (transaction) => {
      const shortage = await quota.shortageOf(transaction, reservedBytes, 1);
      if (shortage === undefined) await transaction.insertInto("files").values(row).execute();
      return shortage;
    });
    if (failure !== undefined) return { failure };
    return { value: new ArrivingFile(this.#options, row, { dataKey, quota, bytesMax }) };
  }

  /** The quota of an account, or of the parts of an upload. */
  quotaOf(account: string, upload?: FileRow): FileQuota {
    const { accountFileBytesMax, accountFilesMax } = this.#options.config;
    if (upload === undefined)
      return new FileQuota({ account, upload: null, filesMax: accountFilesMax, bytesMax: accountFileBytesMax });
    const bytes = Number(upload.bytes);
    // A part may arrive twice, because its sender lost the answer; parts that arrive reserve more.
    const bytesMax = 2 * bytes + Math.min(uploadPartBytesMax, 4 * bytes);
    return new FileQuota({ account, upload: upload.id, filesMax: 2 * uploadPartsMax, bytesMax });
  }

  /** Whether the account may store nothing more. */
  async isFull(account: string): Promise<boolean> {
    const { files, filesMax, bytes, bytesMax } = await this.quotaOf(account).read(this.#options.database);
    return files >= filesMax || bytes >= bytesMax;
  }

  /** A file that arrives in parts, each a file with this `upload`. All of them reserve its size. */
  async beginUpload(owner: FileOwner, details: UploadDetails): Promise<FileResult<FileRow>> {
    const { database, clock } = this.#options;
    const now = clock.epoch();
    const row: FileRow = {
      ...{ ...owner, ...details, id: newIdOf(), state: "uploading", sealed_key: "" },
      created_at: new Date(now),
      expires_at: new Date(now + uploadMs),
      ...{ upload: null, place: null, parts: 0 },
    };
    const quota = this.quotaOf(owner.account);
    const failure = await database.transaction().execute(async (transaction) => {
      const shortage = await quota.shortageOf(transaction, Number(details.bytes), 1);
      if (shortage === undefined) await transaction.insertInto("files").values(row).execute();
      return shortage;
    });
    return failure === undefined ? { value: row } : { failure };
  }

  /** An upload of the account; undefined if it has none with this id that goes on. */
  findUpload(account: string, id: string): Promise<FileRow | undefined> {
    return this.#live(account).where("id", "=", id).where("state", "=", "uploading").executeTakeFirst();
  }

  /** The parts that have arrived, in the order of their places. */
  arrivedParts(upload: FileRow): Promise<FileRow[]> {
    return this.#partsIn(upload, "part");
  }

  #partsIn({ id }: FileRow, state: "part" | "joined"): Promise<FileRow[]> {
    return this.#options.database
      .selectFrom("files")
      .selectAll()
      .where("upload", "=", id)
      .where("state", "=", state)
      .orderBy("place")
      .execute();
  }

  /** The parts with these ids, in this order; undefined if the upload has not all of them. */
  async partsOf(upload: FileRow, ids: readonly string[]): Promise<FileRow[] | undefined> {
    const rows = await this.arrivedParts(upload);
    const parts = ids.flatMap((id) => rows.find((row) => row.id === id) ?? []);
    return parts.length === ids.length && new Set(ids).size === ids.length ? parts : undefined;
  }

  /**
   * Makes an upload a file of these parts, and deletes its other ones. Undefined if it has ended
   * meanwhile.
   */
  async join(upload: FileRow, parts: readonly FileRow[]): Promise<FileRow | undefined> {
    const { database, clock } = this.#options;
    const now = clock.epoch();
    const { life_seconds: life } = upload;
    const joined = await database.transaction().execute(async (transaction) => {
      const file = await transaction
        .updateTable("files")
        .set({
          state: "ready",
          parts: parts.length,
          bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0n),
          created_at: new Date(now),
          expires_at: life === null ? null : new Date(now + life * 1_000),
        })
        .where("id", "=", upload.id)
        .where("state", "=", "uploading")
        .returningAll()
        .executeTakeFirst();
      if (file === undefined) return undefined;
      for (const [place, { id }] of parts.entries())
        await transaction
          .updateTable("files")
          .set({ state: "joined", place, expires_at: null })
          .where("id", "=", id)
          .execute();
      return file;
    });
    const others = database.selectFrom("files").select("id").where("upload", "=", upload.id);
    const ids = joined === undefined ? [] : await others.where("state", "<>", "joined").execute();
    await removeFiles(
      this.#options,
      ids.map(({ id }) => id),
    );
    return joined;
  }

  /** Ends an upload and deletes its parts. False if it is over. */
  async cancelUpload(upload: FileRow): Promise<boolean> {
    const { numUpdatedRows } = await this.#options.database
      .updateTable("files")
      .set({ state: "deleted", expires_at: new Date(this.#options.clock.epoch()) })
      .where("id", "=", upload.id)
      .where("state", "=", "uploading")
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return false;
    await removeFiles(this.#options, [upload.id]);
    return true;
  }

  /** Stores a stream as a file. */
  async create(
    owner: FileOwner,
    details: FileDetails,
    source: AsyncIterable<Uint8Array>,
    options?: Pick<NewFile, "id" | "isUnbounded">,
  ): Promise<FileResult<FileRow>> {
    const begun = await this.begin(owner, options);
    if ("failure" in begun) return begun;
    const failure = await begun.value.write(source);
    if (failure !== undefined) return { failure };
    const finished = await begun.value.finish(details);
    if ("failure" in finished) await begun.value.abandon();
    return finished;
  }

  /** A file of the account; undefined if it has none with this id. */
  async find(account: string, id: string): Promise<FileRow | undefined> {
    if (!isStorable(id)) return undefined;
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
    const opened = row.parts > 0 ? this.#openParts(row, start) : await this.#openObject(row, start);
    return opened && Readable.from(opened, { objectMode: false });
  }

  async #openObject(row: FileRow, start: number): Promise<AsyncIterable<Buffer> | undefined> {
    const { objects, secret } = this.#options;
    const dataKey = unseal(sealingKeyOf(secret, row), row.sealed_key);
    if (dataKey === undefined) throw new Error("the key of a file was sealed with another AUTH_SECRET");
    const sealed = await objects.get(row.id, sealedStartOf(start));
    return sealed && openChunks(createSecretKey(Buffer.from(dataKey, "base64")), sealed, start);
  }

  async *#openParts(file: FileRow, start: number): AsyncGenerator<Buffer> {
    yield* this.readParts(await this.#partsIn(file, "joined"), start);
  }

  /** The bytes of parts, one after the other, from byte `start` on. */
  async *readParts(parts: readonly FileRow[], start = 0): AsyncGenerator<Buffer> {
    let skipped = start;
    for (const part of parts) {
      const bytes = Number(part.bytes);
      if (skipped < bytes) {
        const opened = await this.#openObject(part, skipped);
        if (opened === undefined) throw new Error("the object store has lost a part of a file");
        yield* opened;
      }
      skipped = Math.max(0, skipped - bytes);
    }
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

  /** Deletes files whose time is over. Rejects when the database or the store does not answer. */
  async sweep(): Promise<void> {
    const { database, clock } = this.#options;
    for (let count = filesSweptTogether; count === filesSweptTogether; ) {
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
      count = rows.length;
    }
  }

  #visible(account: string) {
    return this.#live(account).where("state", "=", "ready");
  }

  #live(account: string) {
    const { database, clock } = this.#options;
    return database
      .selectFrom("files")
      .selectAll()
      .where("account", "=", account)
      .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", new Date(clock.epoch()))]));
  }
}

/** A file while its bytes arrive. */
class ArrivingFile {
  readonly #options: FileStoreOptions;
  readonly #row: FileRow;
  readonly #bounds: { dataKey: KeyObject; quota: FileQuota; bytesMax: number };
  #reservedBytes: number;
  #bytes = 0;
  #renewedAt: number;

  constructor(
    options: FileStoreOptions,
    row: FileRow,
    bounds: { dataKey: KeyObject; quota: FileQuota; bytesMax: number },
  ) {
    this.#options = options;
    this.#row = row;
    this.#bounds = bounds;
    this.#reservedBytes = Number(row.bytes);
    this.#renewedAt = options.clock.now();
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return this.#row.created_at.getTime();
  }

  /**
   * Stores the bytes. Returns why they cannot be stored; rejects when the source, the object store
   * or the database fails. In all these cases nothing is left of the file.
   */
  async write(source: AsyncIterable<Uint8Array>): Promise<Failure | undefined> {
    try {
      await this.#options.objects.put(this.#row.id, sealChunks(this.#bounds.dataKey, this.#counted(source)));
      return undefined;
    } catch (error) {
      // A store may fail because the object was removed with its row.
      const end = await this.#end().catch(() => undefined);
      await this.abandon().catch(() => undefined);
      if (end !== undefined) return end;
      if (error instanceof Stopped) return error.failure;
      throw error;
    }
  }

  /**
   * The same for the bytes of a caller, who is told of a fault of the store, as of a full disk, in
   * general words. Rejects when the source fails.
   */
  async receive(source: AsyncIterable<Uint8Array>): Promise<Failure | undefined> {
    let isBroken = false;
    async function* followed() {
      try {
        yield* source;
      } catch (error) {
        isBroken = true;
        throw error;
      }
    }
    try {
      return await this.write(followed());
    } catch (error) {
      if (isBroken) throw error;
      this.#options.log.error({ err: error }, "a file that a caller sent could not be stored");
      return notStored;
    }
  }

  /** Why the file does not arrive any more; undefined if it does. */
  async #end(): Promise<Failure | undefined> {
    const { id, upload } = this.#row;
    const rows = await this.#options.database
      .selectFrom("files")
      .select("state")
      .where("id", "in", upload === null ? [id] : [id, upload])
      .execute();
    const states = rows.map(({ state }) => state);
    if (states.includes("arriving")) return undefined;
    return upload === null || states.includes("uploading") ? tooSlow : uploadEnded;
  }

  /** The file as others see it from now on, or the part as its upload does. */
  finish(details: FileDetails): Promise<FileResult<FileRow>> {
    const { id, upload } = this.#row;
    return this.#options.database.transaction().execute(async (transaction) => {
      const failure = upload === null ? undefined : await placeFailure(transaction, upload, details.place);
      if (failure !== undefined) return { failure };
      const row = await transaction
        .updateTable("files")
        .set({ ...details, bytes: BigInt(this.#bytes), state: upload === null ? "ready" : "part" })
        .where("id", "=", id)
        .where("state", "=", "arriving")
        .returningAll()
        .executeTakeFirst();
      return row === undefined ? { failure: tooSlow } : { value: row };
    });
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
    const { database, clock } = this.#options;
    const { quota, bytesMax } = this.#bounds;
    if (this.#bytes > bytesMax) return tooLarge(bytesMax);
    const isDue = clock.now() - this.#renewedAt > fileRenewedEveryMs;
    const isFull = this.#bytes > this.#reservedBytes;
    if (!(isDue || isFull)) return undefined;
    const step = Math.min(fileReservedMax, Math.max(fileReservedMin, this.#bytes));
    const more = isFull ? Math.min(this.#bytes + step, bytesMax) - this.#reservedBytes : 0;
    return database.transaction().execute(async (transaction) => {
      const shortage = isFull ? await quota.shortageOf(transaction, more, 0) : undefined;
      if (shortage !== undefined) return shortage;
      const { numUpdatedRows } = await transaction
        .updateTable("files")
        .set({
          bytes: BigInt(this.#reservedBytes + more),
          expires_at: new Date(clock.epoch() + fileSilenceMs),
        })
        .where("id", "=", this.#row.id)
        .where("state", "=", "arriving")
        .executeTakeFirst();
      if (numUpdatedRows === 0n) return tooSlow;
      this.#reservedBytes += more;
      this.#renewedAt = clock.now();
      return undefined;
    });
  }
}

/**
 * Why an upload takes no part at this place, if the place is known: its next bytes are others. No
 * other part is stored until the transaction ends.
 */
async function placeFailure(
  transaction: Database,
  upload: string,
  place: number | null | undefined,
): Promise<Failure | undefined> {
  const open = await transaction
    .selectFrom("files")
    .select("id")
    .where("id", "=", upload)
    .where("state", "=", "uploading")
    .forUpdate()
    .executeTakeFirst();
  if (open === undefined) return uploadEnded;
  if (place === undefined || place === null) return undefined;
  const { bytes } = await transaction
    .selectFrom("files")
    .select(sql<string>`coalesce(sum(bytes), 0)::text`.as("bytes"))
    .where("upload", "=", upload)
    .where("state", "=", "part")
    .executeTakeFirstOrThrow();
  return place === Number(bytes) ? undefined : wrongOffset(Number(bytes));
}

/** Ends a stream that is being stored. */
class Stopped extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

const unbounded = (account: string): FileQuota =>
  new FileQuota({ account, upload: null, filesMax: Number.POSITIVE_INFINITY, bytesMax: Number.POSITIVE_INFINITY });

/** A key of the account. */
const sealingKeyOf = (secret: string, { account }: Pick<FileRow, "account">) => ({
  secret,
  salt: account,
  purpose: "file",
});

/** Objects go first: a row finds them again if that fails. */
async function removeFiles({ objects, database }: FileStoreOptions, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const parts = await database.selectFrom("files").select("id").where("upload", "=", id).execute();
    for (const part of parts) await objects.remove(part.id);
    await objects.remove(id);
    await database
      .deleteFrom("files")
      .where((where) => where.or([where("id", "=", id), where("upload", "=", id)]))
      .execute();
  }
}

export const newIdOf = () =>
  Array.from({ length: 24 }, () => "0123456789abcdefghijklmnopqrstuvwxyz"[randomInt(36)]).join("");

export const tooLarge = (bytesMax: number): Failure => ({
  code: "body_too_large",
  message: `The file is larger than ${bytesMax} bytes.`,
});

/** `present` is the number of bytes that an upload has. */
export const wrongOffset = (present: number): Failure => ({
  code: "invalid_request",
  message: `The next bytes are those from ${present} on.`,
  param: "x-goog-upload-offset",
});

const uploadEnded: Failure = { code: "not_found", message: "The upload has ended." };

const notStored: Failure = {
  code: "unavailable",
  message: "The file could not be stored; send it again in a moment.",
};

const tooSlow: Failure = {
  code: "request_timeout",
  message: "The file arrived with too long a pause; send it again.",
};
