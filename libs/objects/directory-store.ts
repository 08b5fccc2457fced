/** Objects as files of a directory, which only its owner can read. */
import { type FileHandle, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { checkedName, type ObjectStore } from "./object-store.ts";

export class DirectoryStore implements ObjectStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async put(name: string, source: AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#pathOf(name);
    const part = `${path}.part`;
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    // Another process that writes this object, or was killed while it did, has a file of its own.
    await rm(part, { force: true });
    await using file = await open(part, "wx", 0o600);
    const { ino } = await file.stat();
    const isOwn = async () => (await stat(part).catch(() => undefined))?.ino === ino;
    try {
      for await (const bytes of source) await writeAll(file, bytes);
      await file.sync();
      if (!(await isOwn())) throw new Error("another process writes this object");
      await rename(part, path);
    } catch (error) {
      if (await isOwn()) await rm(part, { force: true });
      throw error;
    }
    // The new name is durable once its directory is.
    await using directory = await open(dirname(path), "r");
    await directory.sync();
  }

  async get(name: string, start = 0) {
    try {
      const file = await open(this.#pathOf(name), "r");
      return file.createReadStream({ start });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  async remove(name: string): Promise<void> {
    const path = this.#pathOf(name);
    await rm(path, { force: true });
    await rm(`${path}.part`, { force: true });
  }

  /** A directory with very many files is slow in some file systems. */
  #pathOf(name: string): string {
    return join(this.#directory, checkedName(name).includes("/") ? "" : name.slice(0, 2), name);
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length; )
    written += (await file.write(bytes, written, bytes.length - written)).bytesWritten;
}
