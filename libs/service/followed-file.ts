/**
 * Follows the content of a file. It polls, because events of the operating system miss replaced
 * files, swapped symbolic links and network file systems.
 */
import { readFileSync, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";

export type FileReading =
  | { kind: "content"; bytes: Uint8Array }
  /** With the system's code, where it has one. */
  | { kind: "unreadable"; reason: string; code?: string | undefined };

export interface FollowOptions {
  bytesMax: number;
  everyMs: number;
  /** The state of the file that is already known, which is not reported. */
  initial?: FileReading;
  /**
   * Called with each new state of the file once two reads in a row find it, so within three
   * periods, and never while the file is being written.
   */
  onReading(reading: FileReading): void;
}

/** A mounted file stays the same one although its name outside leads to another. */
const replacedText =
  "was replaced or deleted outside the container, which still sees the old file; mount its directory, or restart the container";

/** Returns the function that ends it. Never throws. */
export function followFile(file: string, { bytesMax, everyMs, initial, onReading }: FollowOptions): () => void {
  let seen: FileReading | undefined;
  let settled = initial;
  let isClosed = false;
  let hadName = false;
  const read = async (): Promise<FileReading> => {
    try {
      const status = await stat(file);
      const hasName = status.nlink > 0;
      if (hadName && !hasName) return { kind: "unreadable", reason: `${file}: ${replacedText}` };
      hadName = hasName;
      return faultOf(file, status, bytesMax) ?? { kind: "content", bytes: await readFile(file) };
    } catch (error) {
      return unreadableOf(file, error);
    }
  };
  const poll = async () => {
    const reading = await read();
    if (isClosed) return;
    if (isDeepStrictEqual(reading, seen) && !isDeepStrictEqual(reading, settled)) {
      settled = reading;
      onReading(reading);
    }
    seen = reading;
    timer = setTimeout(poll, everyMs);
  };
  let timer = setTimeout(poll, everyMs);
  return () => {
    isClosed = true;
    clearTimeout(timer);
  };
}

/** Reads a file at the start of a process, which waits for it. */
export function readBoundedSync(file: string, bytesMax: number): FileReading {
  try {
    return faultOf(file, statSync(file), bytesMax) ?? { kind: "content", bytes: readFileSync(file) };
  } catch (error) {
    return unreadableOf(file, error);
  }
}

function unreadableOf(file: string, error: unknown): FileReading {
  const { code } = error as NodeJS.ErrnoException;
  return { kind: "unreadable", reason: unreadableText(file, error), code };
}

function faultOf(file: string, status: { size: number; isFile(): boolean }, bytesMax: number): FileReading | undefined {
  if (!status.isFile()) return { kind: "unreadable", reason: `${file}: not a file` };
  if (status.size > bytesMax) return { kind: "unreadable", reason: `${file}: larger than ${bytesMax} bytes` };
  return undefined;
}

/** Why a file cannot be read, with its name. */
export function unreadableText(file: string, error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return `${file}: ${code === "ENOENT" ? "no such file" : message}`;
}
