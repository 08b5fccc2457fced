/** Suggests a known name for a misspelled one. */

const editsMax = 2;

/** ` (did you mean "x"?)` for the closest known name within two edits, otherwise empty. */
export function suggestionOf(name: string, names: Iterable<string>): string {
  let closest: string | undefined;
  let fewest = Math.min(editsMax, Math.floor(name.length / 2)) + 1;
  for (const candidate of names) {
    const edits = Math.abs(candidate.length - name.length) < fewest ? editsBetween(name, candidate) : fewest;
    if (edits < fewest) [closest, fewest] = [candidate, edits];
  }
  return closest === undefined ? "" : ` (did you mean "${closest}"?)`;
}

/** The Levenshtein distance, ignoring case. */
function editsBetween(left: string, right: string): number {
  const [a, b] = [left.toLowerCase(), right.toLowerCase()];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length]!;
}
