/** Finds the known name for a misspelled one. */

const editsMax = 2;

/** ` (did you mean "x"?)` for the closest known name within two edits, otherwise empty. */
export function suggestionOf(name: string, names: Iterable<string>): string {
  const closest = nearestOf(name, names, Math.min(editsMax, Math.floor(name.length / 2)));
  return closest === undefined ? "" : ` (did you mean "${closest}"?)`;
}

/** The closest name within so many edits; undefined if there is none. */
export function nearestOf(name: string, names: Iterable<string>, most: number): string | undefined {
  let closest: string | undefined;
  let fewest = most + 1;
  for (const candidate of names) {
    const edits = Math.abs(candidate.length - name.length) < fewest ? editsBetween(name, candidate) : fewest;
    if (edits < fewest) [closest, fewest] = [candidate, edits];
  }
  return closest;
}

/**
 * The distance by insertions, deletions, replacements and swaps of neighbours (optimal string
 * alignment), ignoring case.
 */
function editsBetween(left: string, right: string): number {
  const [a, b] = [left.toLowerCase(), right.toLowerCase()];
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next[j] = Math.min(
        row[j]! + 1,
        next[j - 1]! + 1,
        row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1),
        isSwap ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
