/**
 * The sources of the console: functions that fit on a screen, and texts with equal places in all
 * languages.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

const root = resolve(import.meta.dirname, "../../apps/console");
const linesMax = 100;
const readSource = (file: string) => readFileSync(join(root, file), "utf8");

/**
 * The functions of a formatted module by their first line: each ends where a line begins with a
 * bracket.
 */
function functionsOf(text: string): { name: string; lines: number }[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    if (!/^(?:export )?(?:async )?function |^(?:export )?const \w+ = .*(?:=>|\($)/.test(line)) return [];
    const length = lines.slice(index).findIndex((each) => /^[}\])]/.test(each)) + 1;
    return [{ name: line.replace(/[=({].*/, "").trim(), lines: length }];
  });
}

test("no function has more than a hundred lines", () => {
  const functions = globSync("**/*.{ts,tsx}", { cwd: root }).flatMap((file) =>
    functionsOf(readSource(file)).map((entry) => ({ file, ...entry })),
  );
  assert.ok(functions.length > 400);
  assert.deepEqual(
    functions.filter(({ lines }) => lines > linesMax),
    [],
  );
});

test("a long function is found", () => {
  const text = `export function long() {\n${"  work();\n".repeat(linesMax)}}\n`;
  assert.deepEqual(functionsOf(text), [{ name: "export function long", lines: linesMax + 2 }]);
});

test("texts have the same places for values in every language", () => {
  const files = globSync("**/*.texts.ts", { cwd: root });
  assert.ok(files.length > 30);
  for (const file of files) {
    const [english = "", chinese = ""] = readSource(file).split(/^ {2}zh: /m);
    const placesOf = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted();
    // A rule of faults may exist in one language only: the API's own words are English.
    if (file !== "parts/faults.texts.ts") assert.deepEqual(placesOf(chinese), placesOf(english), file);
  }
});
