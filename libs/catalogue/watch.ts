/**
 * Follows a catalogue file. It reads the file's content on a short period instead of asking the operating system for events,
 * which miss replaced files, swapped symbolic links and network file systems.
 */
import { readFile, stat } from "node:fs/promises";
import type { Catalogue } from "./catalogue.ts";
import { fileBytesMax } from "./document.ts";
import type { Environment } from "./environment.ts";
import { CatalogueFault } from "./fault.ts";
import { loadCatalogue, parseCatalogue, unreadableText, versionOf } from "./load.ts";

/** A change is taken when two readings in a row found the same content: so a file that is half written is not, and a change is seen within three periods. */
const periodMs = 200;

export interface CatalogueWatch {
  /** The last good catalogue. */
  current(): Catalogue;
  /** Why the file as it is now is not the one that runs; undefined when it is. */
  fault(): string | undefined;
  close(): void;
}

export interface WatchListeners {
  /** A new catalogue is in force. */
  onChange(catalogue: Catalogue): void;
  /** The file became unusable; told once for each different fault. The running catalogue stays. Undefined: the file is good again. */
  onFault(message: string | undefined): void;
}

type Reading = { kind: "content"; bytes: Uint8Array } | { kind: "unreadable"; reason: string };

/** Loads the file, throwing CatalogueFault, then follows it until closed, throwing nothing. */
export function watchCatalogue(
  file: string,
  environment: Environment,
  { onChange, onFault }: WatchListeners,
): CatalogueWatch {
  let current = loadCatalogue(file, environment);
  let fault: string | undefined;
  let seen: Reading | undefined;
  let settled: Reading | undefined;
  let isClosed = false;

  const settle = (reading: Reading) => {
    const isCurrent = reading.kind === "content" && versionOf(reading.bytes) === current.version;
    const outcome = isCurrent
      ? current
      : reading.kind === "content"
        ? catalogueOrFault(reading.bytes, file, environment)
        : reading.reason;
    if (typeof outcome === "string") {
      if (outcome !== fault) tell(() => onFault(outcome));
      fault = outcome;
      return;
    }
    if (fault !== undefined) tell(() => onFault(undefined));
    fault = undefined;
    if (isCurrent) return;
    current = outcome;
    tell(() => onChange(outcome));
  };
  const tell = (listener: () => void) => {
    try {
      listener();
    } catch (error) {
      process.emitWarning(`a listener of ${file} failed: ${(error as Error).message}`);
    }
  };
  const look = async () => {
    const reading = await read(file);
    if (isClosed) return;
    if (isSame(reading, seen) && !isSame(reading, settled)) {
      settled = reading;
      settle(reading);
    }
    seen = reading;
    timer = setTimeout(look, periodMs);
  };
  let timer = setTimeout(look, periodMs);

  return {
    current: () => current,
    fault: () => fault,
    close: () => {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

function catalogueOrFault(bytes: Uint8Array, file: string, environment: Environment): Catalogue | string {
  try {
    return parseCatalogue(bytes, file, environment);
  } catch (error) {
    return error instanceof CatalogueFault ? error.message : `${file}: ${(error as Error).message}`;
  }
}

async function read(file: string): Promise<Reading> {
  try {
    const found = await stat(file);
    if (!found.isFile()) return { kind: "unreadable", reason: `${file}: not a file` };
    if (found.size > fileBytesMax) return { kind: "unreadable", reason: `${file}: larger than ${fileBytesMax} bytes` };
    return { kind: "content", bytes: await readFile(file) };
  } catch (error) {
    return { kind: "unreadable", reason: unreadableText(file, error) };
  }
}

function isSame(left: Reading, right: Reading | undefined): boolean {
  if (left.kind === "content") return right?.kind === "content" && Buffer.compare(left.bytes, right.bytes) === 0;
  return right?.kind === "unreadable" && left.reason === right.reason;
}
