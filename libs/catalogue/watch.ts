/** Watches a catalogue's file for changes, and merges it with the stored entries. */
import { isDeepStrictEqual } from "node:util";
import { type FileReading, followFile } from "#service/followed-file.ts";
import type { Catalogue } from "./catalogue.ts";
import { fileBytesMax } from "./document.ts";
import type { Environment } from "./environment.ts";
import { CatalogueFault } from "./fault.ts";
import { bytesOf, parseCatalogue, versionOf } from "./load.ts";
import type { StoredRevision } from "./stored.ts";

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
  /** Why the current file or revision is not in force; undefined when both are. */
  fault(): string | undefined;
  /** Replaces the stored entries. Returns why they are not in force; undefined when they are. */
  put(revision: StoredRevision): string | undefined;
  /** The number of the revision in force; 0 for none. */
  revision(): number;
  /** The content of the file in force. */
  file(): Uint8Array;
  close(): void;
}

export interface WatchListeners {
  /** A new catalogue is in force. */
  onChange(catalogue: Catalogue): void;
  /**
   * The file or the stored entries became invalid, and the last valid catalogue stays in force.
   * Called once for each different message, and with undefined when both are valid again.
   */
  onFault(message: string | undefined): void;
}

interface Sources {
  readonly bytes: Uint8Array;
  readonly fileVersion: string;
  readonly stored: StoredRevision | undefined;
}

/** Loads the file, or throws CatalogueFault. Then watches it until `close` and throws nothing. */
export function watchCatalogue(
  file: string,
  environment: Environment,
  { onChange, onFault }: WatchListeners,
): CatalogueWatch {
  const bytes = bytesOf(file);
  let latest: Sources = { bytes, fileVersion: versionOf(bytes), stored: undefined };
  let inForce = latest;
  let current = parseCatalogue(bytes, file, environment);
  const recent = [current];
  let fault: string | undefined;

  let unreadable: string | undefined;

  /** Brings the first valid ones into force. Returns why the first are not. */
  const apply = (...candidates: Sources[]): string | undefined => {
    const outcomes: (Catalogue | string)[] = [];
    for (const sources of candidates) {
      const outcome = isSame(sources, inForce) ? current : catalogueOrFault(sources, file, environment);
      outcomes.push(outcome);
      if (typeof outcome === "string") continue;
      inForce = sources;
      break;
    }
    const [first] = outcomes;
    const message = typeof first === "string" ? first : undefined;
    report(unreadable ?? message);
    const changed = outcomes.at(-1);
    if (typeof changed === "string" || changed === undefined || changed === current) return message;
    current = changed;
    recent.unshift(changed);
    recent.splice(recentMax);
    notify(() => onChange(changed));
    return message;
  };
  const report = (message: string | undefined) => {
    if (message !== fault) notify(() => onFault(message));
    fault = message;
  };
  const onReading = (reading: FileReading) => {
    unreadable = reading.kind === "unreadable" ? reading.reason : undefined;
    if (reading.kind === "unreadable") return report(reading.reason);
    latest = { ...latest, bytes: reading.bytes, fileVersion: versionOf(reading.bytes) };
    apply(latest, { ...latest, stored: inForce.stored });
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
    put(stored) {
      latest = { ...latest, stored };
      return apply(latest, { ...inForce, stored });
    },
    revision: () => inForce.stored?.number ?? 0,
    file: () => inForce.bytes,
    close: stopFollowing,
  };
}

const isSame = (left: Sources, right: Sources): boolean =>
  left.fileVersion === right.fileVersion &&
  left.stored?.number === right.stored?.number &&
  left.stored?.sha256 === right.stored?.sha256 &&
  isDeepStrictEqual(left.stored?.overlapping, right.stored?.overlapping);

function catalogueOrFault({ bytes, stored }: Sources, file: string, environment: Environment): Catalogue | string {
  try {
    return parseCatalogue(bytes, file, environment, stored);
  } catch (error) {
    return error instanceof CatalogueFault ? error.message : `${file}: ${(error as Error).message}`;
  }
}
