/** What is wrong with a catalogue, said in one line with the place in the file. */

/** A catalogue that cannot be used. The message is one line: `file:line:column: path: what is wrong`. */
export class CatalogueFault extends Error {}

export type Path = readonly (string | number)[];

/** Something wrong at a path of the file. */
export interface Finding {
  path: Path;
  /** The fault is the last name of the path itself, not the value beneath it. */
  atKey?: boolean;
  text: string;
}

/** A path as people write it: `models[2].route[0].upstream`. */
export function pathTextOf(path: Path): string {
  return path.map((step, index) => (typeof step === "number" ? `[${step}]` : index === 0 ? step : `.${step}`)).join("");
}
