/**
 * The lines that differ between two texts, with some lines of context: a longest common
 * subsequence, as in `diff -u`.
 */
import type { catalogueFileOperations } from "#api/catalogue-file.ts";
import type { AnswerOf } from "#api/operation.ts";
import { diffCellsMax, diffLinesMax } from "../bounds.ts";

type Diff = NonNullable<AnswerOf<(typeof catalogueFileOperations)["checkCatalogue"]>["diff"]>;
type Line = Diff["lines"][number];

const contextLines = 3;

/**
 * Texts that differ in very many lines count as replaced as a whole from the first such line to the
 * last.
 */
export function diffOf(before: string, after: string): Diff {
  const [old, fresh] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old.at(-1 - end) === fresh.at(-1 - end)) end++;
  const lines: Line[] = [];
  let [place, freshPlace] = [0, 0];
  const add = (kind: Line["kind"], text: string) =>
    lines.push({
      kind,
      before: kind === "added" ? null : ++place,
      after: kind === "removed" ? null : ++freshPlace,
      text,
    });
  for (const text of old.slice(0, start)) add("same", text);
  for (const [kind, text] of middleOf(old.slice(start, old.length - end), fresh.slice(start, fresh.length - end)))
    add(kind, text);
  for (const text of old.slice(old.length - end)) add("same", text);
  const isNear = nearChanges(lines);
  const shown = lines.filter((_, index) => isNear[index]);
  return { lines: shown.slice(0, diffLinesMax), isCut: shown.length > diffLinesMax };
}

function* middleOf(old: readonly string[], fresh: readonly string[]): Generator<[Line["kind"], string]> {
  const width = fresh.length + 1;
  const isSmall = (old.length + 1) * width <= diffCellsMax;
  /** The common lines of the rests that begin at each pair of places. */
  const common = isSmall ? new Uint16Array((old.length + 1) * width) : undefined;
  if (common)
    for (let i = old.length - 1; i >= 0; i--)
      for (let j = fresh.length - 1; j >= 0; j--)
        common[i * width + j] =
          old[i] === fresh[j]
            ? (common[(i + 1) * width + j + 1] ?? 0) + 1
            : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
  let [i, j] = [0, 0];
  while (common && i < old.length && j < fresh.length) {
    if (old[i] === fresh[j]) {
      yield ["same", old[i++] as string];
      j++;
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))
      yield ["removed", old[i++] as string];
    else yield ["added", fresh[j++] as string];
  }
  for (const text of old.slice(i)) yield ["removed", text];
  for (const text of fresh.slice(j)) yield ["added", text];
}

/** Which lines are changes, or within the context of one. */
function nearChanges(lines: readonly Line[]): boolean[] {
  const isNear = lines.map(() => false);
  for (const [index, { kind }] of lines.entries())
    if (kind !== "same") isNear.fill(true, Math.max(0, index - contextLines), index + contextLines + 1);
  return isNear;
}
