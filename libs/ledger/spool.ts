/**
 * Files of lines that wait to be sent. A process appends to a file for half a minute and then
 * starts another, so a file that nobody has written to for a minute is complete, and any process
 * may send it. A file is removed only after all of its lines were sent: a line may be sent twice,
 * and is never lost.
 */

import { randomUUID } from "node:crypto";
import { access, type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "#service/clock.ts";
import { abandonedMs, spoolFileMs } from "./bounds.ts";

const suffix = ".usage";
/**
 * A file that a process is sending. The time of its last change says how long ago that process made
 * progress.
 */
const sendingSuffix = ".sending";

/** Returns false when the lines could not be sent now. */
export type SendLines = (lines: string) => Promise<boolean>;

interface OpenFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly openedAt: number;
  bytes: number;
}

/** Sizes in bytes. This process sends each byte once. */
interface CompleteFile {
  readonly size: number;
  sent: number;
}

export class Spool {
  readonly #directory: string;
  readonly #clock: Clock;
  #file: OpenFile | undefined;
  /** Files that this process sends, oldest first: its own, and those that others left behind. */
  readonly #complete = new Map<string, CompleteFile>();
  #draining: Promise<boolean> | undefined;
  #lookedAt = 0;

  constructor(directory: string, clock: Clock = systemClock) {
    this.#directory = directory;
    this.#clock = clock;
  }

  /** Bytes that wait in the files of this process, and in those that it found. */
  get bytes(): number {
    return [...this.#complete.values()].reduce((sum, { size, sent }) => sum + size - sent, this.#file?.bytes ?? 0);
  }

  /** Resolves when the lines are on disk. Call it, and `complete`, again only after that. */
  async append(lines: string): Promise<void> {
    if (this.#file !== undefined && this.#clock.epoch() - this.#file.openedAt > spoolFileMs) await this.complete();
    this.#file ??= await this.#openFile();
    if (await this.#appendTo(this.#file, lines)) return;
    // This process was frozen for so long that another one took the file.
    await this.complete();
    this.#file = await this.#openFile();
    await this.#appendTo(this.#file, lines);
  }

  /**
   * Calls `send` with whole lines, about `chunkBytes` at a time, until it returns false or no
   * complete file is left; resolves to whether none is left. Sends complete files of other
   * processes too.
   */
  drain(chunkBytes: number, send: SendLines): Promise<boolean> {
    this.#draining ??= this.#drain(chunkBytes, send).finally(() => {
      this.#draining = undefined;
    });
    return this.#draining;
  }

  /** The next process sends the rest from disk. Let `send` return false first. */
  async close(): Promise<void> {
    await this.#draining?.catch(() => undefined);
    await this.complete();
  }

  /** Later lines go to a new file. Not while `append` runs. */
  async complete(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    this.#file = undefined;
    this.#complete.set(file.path, { size: file.bytes, sent: 0 });
    await file.handle.close();
  }

  async #openFile(): Promise<OpenFile> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const path = join(this.#directory, `${randomUUID()}${suffix}`);
    return { path, handle: await open(path, "ax", 0o600), openedAt: this.#clock.epoch(), bytes: 0 };
  }

  /**
   * False if the file is no longer there. After an error, an unfinished line may be at its end, so
   * it gets no further lines.
   */
  async #appendTo(file: OpenFile, lines: string): Promise<boolean> {
    const bytes = Buffer.from(`${lines}\n`);
    try {
      await file.handle.appendFile(bytes);
      await file.handle.datasync();
    } catch (error) {
      await (file.bytes === 0 ? this.#discard(file) : this.complete());
      throw error;
    }
    file.bytes += bytes.length;
    return exists(file.path);
  }

  /** A full disk would otherwise get an empty file for each try. */
  async #discard(file: OpenFile): Promise<void> {
    this.#file = undefined;
    await file.handle.close().catch(() => undefined);
    await rm(file.path, { force: true }).catch(() => undefined);
  }

  async #drain(chunkBytes: number, send: SendLines): Promise<boolean> {
    await this.#adopt();
    for (const [path, file] of this.#complete) {
      if (!(await sendFile(path, file, chunkBytes, send))) return false;
      this.#complete.delete(path);
    }
    return true;
  }

  /** Finds files that nobody has written to for a while. */
  async #adopt(): Promise<void> {
    const now = this.#clock.epoch();
    if (now - this.#lookedAt < abandonedMs) return;
    this.#lookedAt = now;
    const names = await readdir(this.#directory).catch(() => []);
    for (const name of names) {
      const path = join(this.#directory, name);
      if (!(name.endsWith(suffix) || name.endsWith(sendingSuffix)) || this.#complete.has(path)) continue;
      if (path === this.#file?.path) continue;
      const status = await stat(path).catch(() => undefined);
      if (status !== undefined && now - status.mtimeMs > abandonedMs)
        this.#complete.set(path, { size: status.size, sent: 0 });
    }
  }
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

/**
 * Removes the file if everything was sent. It is renamed first, so that two processes rarely send
 * the same one; lines that are sent twice do no harm. Resolves to true if another process sends it.
 */
async function sendFile(path: string, file: CompleteFile, chunkBytes: number, send: SendLines): Promise<boolean> {
  const claimed = path.endsWith(sendingSuffix) ? path : `${path}${sendingSuffix}`;
  try {
    if (claimed !== path) await rename(path, claimed);
    const isSent = await sendLines(claimed, file, chunkBytes, send);
    // An unfinished line at the end was never confirmed to anybody.
    if (isSent) await rm(claimed, { force: true });
    else if (claimed !== path) await rename(claimed, path);
    return isSent;
  } catch (error) {
    if (isMissing(error)) return true;
    if (claimed !== path) await rename(claimed, path).catch(() => undefined);
    throw error;
  }
}

async function sendLines(path: string, file: CompleteFile, chunkBytes: number, send: SendLines): Promise<boolean> {
  await using handle = await open(path, "r+");
  let rest = Buffer.alloc(0);
  for await (const chunk of handle.createReadStream({
    start: file.sent,
    highWaterMark: chunkBytes,
    autoClose: false,
  }) as AsyncIterable<Buffer>) {
    // Others leave a file alone while its time changes.
    await handle.utimes(new Date(), new Date());
    const bytes = Buffer.concat([rest, chunk]);
    const end = bytes.lastIndexOf(0x0a) + 1;
    rest = bytes.subarray(end);
    if (end > 1 && !(await send(bytes.toString("utf8", 0, end - 1)))) return false;
    file.sent += end;
  }
  return true;
}
