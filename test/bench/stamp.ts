/**
 * The content of each chunk of the bench's upstream: its number and its time, in a fixed number of
 * characters.
 */

const numberDigits = 6;
const timeDigits = 14;
/** A quote before it makes it the beginning of a JSON string, in any dialect. */
const mark = '"#';

/** Characters from the mark to the end of the stamp. */
export const stampLength = mark.length + numberDigits + 1 + timeDigits;

export const stampOf = (number: number, microseconds: number): string =>
  `#${String(number).padStart(numberDigits, "0")} ${String(microseconds).padStart(timeDigits, "0")} `;

/** Where the next whole stamp begins, -1 if there is none. */
export function findStamp(text: string, from: number): number {
  const at = text.indexOf(mark, from);
  return at >= 0 && at + stampLength <= text.length ? at : -1;
}

export const numberAt = (text: string, at: number): number => Number(text.substr(at + mark.length, numberDigits));
export const microsecondsAt = (text: string, at: number): number =>
  Number(text.substr(at + mark.length + numberDigits + 1, timeDigits));
