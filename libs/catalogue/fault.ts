/** Errors in a catalogue file. */

/**
 * An unusable catalogue. The message is one line about the first mistake: `file:line:column: path:
 * mistake`.
 */
export class CatalogueFault extends Error {
  /** A line for each mistake, in the order of the file. */
  readonly lines: readonly string[];

  constructor(...lines: [string, ...string[]]) {
    const [first, ...others] = lines;
    super(others.length === 0 ? first : `${first} (and ${others.length} more)`);
    this.lines = lines;
  }
}

/** The same name is in the file and among the stored entries. */
export class CatalogueClash extends CatalogueFault {}

export type Path = readonly (string | number)[];

/** A mistake at a path of the file. */
export interface Finding {
  path: Path;
  /** The mistake is the last name of the path, not its value. */
  atKey?: boolean;
  text: string;
}

/** Formats a path: `models[2].route[0].upstream`. */
export function pathTextOf(path: Path): string {
  return path.map((step, index) => (typeof step === "number" ? `[${step}]` : index === 0 ? step : `.${step}`)).join("");
}
