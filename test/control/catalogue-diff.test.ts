/** The lines that differ between two texts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { diffOf } from "../../apps/control/catalogue/diff.ts";

const textOf = (lines: readonly (string | number)[]) => lines.join("\n");
const shown = (before: string, after: string) =>
  diffOf(before, after).lines.map(({ kind, text }) => `${{ same: " ", added: "+", removed: "-" }[kind]}${text}`);

test("changed lines come with three lines around them and their numbers in both texts", () => {
  const before = Array.from({ length: 20 }, (_, index): string | number => index + 1);
  const after = before.flatMap((line) => (line === 10 ? ["ten", "and more"] : line === 3 ? [] : [line]));
  assert.deepEqual(shown(textOf(before), textOf(after)), [
    ...[" 1", " 2", "-3", " 4", " 5", " 6", " 7", " 8", " 9"],
    ...["-10", "+ten", "+and more", " 11", " 12", " 13"],
  ]);
  const { lines } = diffOf(textOf(before), textOf(after));
  assert.deepEqual(lines.at(-1), { kind: "same", before: 13, after: 13, text: "13" });
  assert.deepEqual(shown("a\nb", "a\nb"), []);
  assert.deepEqual(shown("", "a"), ["-", "+a"]);
});

test("applying the difference of any two texts to the first gives the second", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  for (let round = 0; round < 300; round++) {
    const [before, after] = [0, 0].map(() => Array.from({ length: random(12) }, () => random(4)));
    const { lines } = diffOf(textOf(before ?? []), textOf(after ?? []));
    const changes = lines.filter(({ kind }) => kind !== "same");
    const left = textOf(before ?? []).split("\n");
    const removed = new Set(changes.flatMap(({ before: place }) => place ?? []));
    const kept = left.filter((_, index) => !removed.has(index + 1));
    for (const { after: place, text } of changes) if (place !== null) kept.splice(place - 1, 0, text);
    assert.equal(textOf(kept), textOf(after ?? []));
  }
});

test("texts that differ in very many lines are compared in bounded time, and the answer is bounded", () => {
  const before = Array.from({ length: 5_000 }, (_, index) => `a${index}`);
  const { lines, isCut } = diffOf(textOf(before), textOf(before.map((line) => `${line}!`)));
  assert.deepEqual([lines.length, isCut, lines[0]?.kind], [2_000, true, "removed"]);
});
