/** Watches a catalogue file for changes. */
import { type FileReading, followFile } from "#service/followed-file.ts";
import type { Catalogue } from "./catalogue.ts";
import { fileBytesMax } from "./document.ts";
import type { Environment } from "./environment.ts";
import { CatalogueFault } from "./fault.ts";
import { loadCatalogue, parseCatalogue, versionOf } from "./load.ts";

/** A change takes effect within three periods. */
const periodMs = 200;
/** Catalogues that are kept for requests that they admitted. */
const recentMax = 8;

export interface CatalogueWatch {
  /** The last valid catalogue. */
  current(): Catalogue;
  /**
   * The catalogue with this version, if it was among the last ones in force; otherwise the current
   * one.
   */
  inForceAs(version: string | undefined): Catalogue;
  /** Why the current file is not in force; undefined when it is. */
  fault(): string | undefined;
  close(): void;
}

export interface WatchListeners {
  /** A new catalogue is in force. */
  onChange(catalogue: Catalogue): void;
  /**
   * The file became invalid, and the last valid catalogue stays in force. Called once for each
   * different message, and with undefined when the file is valid again.
   */
  onFault(message: string | undefined): void;
}

/** Loads the file, or throws CatalogueFault. Then watches it until `close` and throws nothing. */
export function watchCatalogue(
  file: string,
  environment: Environment,
  { onChange, onFault }: WatchListeners,
): CatalogueWatch {
  let current = loadCatalogue(file, environment);
  const recent = [current];
  let fault: string | undefined;

  const onReading = (reading: FileReading) => {
    const isCurrent = reading.kind === "content" && versionOf(reading.bytes) === current.version;
    const outcome = isCurrent
      ? current
      : reading.kind === "content"
        ? catalogueOrFault(reading.bytes, file, environment)
        : reading.reason;
    if (typeof outcome === "string") {
      if (outcome !== fault) notify(() => onFault(outcome));
      fault = outcome;
      return;
    }
    if (fault !== undefined) notify(() => onFault(undefined));
    fault = undefined;
    if (isCurrent) return;
    current = outcome;
    recent.unshift(outcome);
    recent.splice(recentMax);
    notify(() => onChange(outcome));
  };
  const notify = (listener: () => void) => {
    try {
      listener();
    } catch (error) {
      process.emitWarning(`a listener of ${file} failed: ${(error as Error).message}`);
    }
  };
  const stopFollowing = followFile(file, { bytesMax: fileBytesMax, everyMs: periodMs, onReading });

  return {
    current: () => current,
    inForceAs: (version) => recent.find((catalogue) => catalogue.version === version) ?? current,
    fault: () => fault,
    close: stopFollowing,
  };
}

function catalogueOrFault(bytes: Uint8Array, file: string, environment: Environment): Catalogue | string {
  try {
    return parseCatalogue(bytes, file, environment);
  } catch (error) {
    return error instanceof CatalogueFault ? error.message : `${file}: ${(error as Error).message}`;
  }
}
