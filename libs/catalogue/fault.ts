/** Errors in a catalogue file. */

/** An unusable catalogue. The message is one line: `file:line:column: path: mistake`. */
export class CatalogueFault extends Error {}

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
