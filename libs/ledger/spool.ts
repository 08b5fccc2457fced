/**
 * Files of lines that wait to be sent. A process appends to a file for half a minute and then starts another, so a file that nobody has written to for a
 * minute is complete, and any process may send it. A file is removed only after all of its lines were sent: a line may be sent twice, and is never lost.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { abandonedMs, spoolFileMs } from "./bounds.ts";

const suffix = ".usage";
/** A file that a process is sending. */
const sendingSuffix = ".sending";

/** Returns false when the lines could not be sent now. */
export type SendLines = (lines: string) => Promise<boolean>;

interface SpoolFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly openedAt: number;
  bytes: number;
}

export class Spool {
  readonly #directory: string;
  #file: SpoolFile | undefined;
  /** This process's complete files with their sizes, oldest first. */
  readonly #complete = new Map<string, number>();
  #draining: Promise<void> | undefined;
  #lookedAt = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Bytes in this process's own files. */
  get bytes(): number {
    return [...this.#complete.values()].reduce((sum, bytes) => sum + bytes, this.#file?.bytes ?? 0);
  }

  /** Resolves when the lines are on disk. Call it, and `complete`, again only after that. */
  async append(lines: string): Promise<void> {
    if (this.#file !== undefined && Date.now() - this.#file.openedAt > spoolFileMs) await this.complete();
    this.#file ??= await this.#openFile();
    const bytes = Buffer.from(`${lines}\n`);
    await this.#file.handle.appendFile(bytes);
    await this.#file.handle.datasync();
    this.#file.bytes += bytes.length;
  }

  /**
   * Calls `send` with whole lines, about `chunkBytes` at a time, until it returns false or nothing is left. Sends complete files, those of other processes
   * too.
   */
  drain(chunkBytes: number, send: SendLines): Promise<void> {
    this.#draining ??= this.#drain(chunkBytes, send).finally(() => {
      this.#draining = undefined;
    });
    return this.#draining;
  }

  /** What is left on disk is sent by the next process. */
  async close(): Promise<void> {
    await this.#draining?.catch(() => undefined);
    await this.complete();
  }

  async #openFile(): Promise<SpoolFile> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const path = join(this.#directory, `${randomUUID()}${suffix}`);
    return { path, handle: await open(path, "ax", 0o600), openedAt: Date.now(), bytes: 0 };
  }

  /** Later lines go to a new file. Not while `append` runs. */
  async complete(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    this.#file = undefined;
    this.#complete.set(file.path, file.bytes);
    await file.handle.close();
  }

  async #drain(chunkBytes: number, send: SendLines): Promise<void> {
    for (const path of [...this.#complete.keys(), ...(await this.#abandoned())]) {
      if (!(await sendFile(path, chunkBytes, send))) return;
      this.#complete.delete(path);
    }
  }

  /** Files that nobody has written to for a while. */
  async #abandoned(): Promise<string[]> {
    const now = Date.now();
    if (now - this.#lookedAt < abandonedMs) return [];
    this.#lookedAt = now;
    const names = await readdir(this.#directory).catch(() => []);
    const paths = names
      .filter((name) => name.endsWith(suffix) || name.endsWith(sendingSuffix))
      .map((name) => join(this.#directory, name))
      .filter((path) => !this.#complete.has(path));
    const ages = await Promise.all(
      paths.map((path) =>
        stat(path).then(
          ({ mtimeMs }) => now - mtimeMs,
          () => 0,
        ),
      ),
    );
    return paths.filter((_, index) => (ages[index] as number) > abandonedMs);
  }
}

/** Removes the file if everything was sent. It is renamed first, so that two processes rarely send the same one; lines that are sent twice do no harm. */
async function sendFile(path: string, chunkBytes: number, send: SendLines): Promise<boolean> {
  const claimed = path.endsWith(sendingSuffix) ? path : `${path}${sendingSuffix}`;
  try {
    if (claimed !== path) await rename(path, claimed);
  } catch (error) {
    // Another process sends it.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return true;
    throw error;
  }
  const isSent = await sendLines(claimed, chunkBytes, send);
  // An unfinished line at the end was never confirmed to anybody.
  if (isSent) await rm(claimed, { force: true });
  else if (claimed !== path) await rename(claimed, path);
  return isSent;
}

async function sendLines(path: string, chunkBytes: number, send: SendLines): Promise<boolean> {
  await using handle = await open(path, "r");
  let rest = "";
  for await (const chunk of handle.createReadStream({
    encoding: "utf8",
    highWaterMark: chunkBytes,
    autoClose: false,
  })) {
    const text = rest + chunk;
    const end = text.lastIndexOf("\n");
    rest = text.slice(end + 1);
    if (end > 0 && !(await send(text.slice(0, end)))) return false;
  }
  return true;
}
