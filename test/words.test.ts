/**
 * One word for each concept (docs/glossary.md): file names and exports use no retired word, no name
 * is a bare participle, and comments begin with a subject and fit the page.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { test } from "node:test";
import { SyntaxKind } from "typescript/unstable/ast";
import { tokensIn } from "../infra/tokens.ts";

const root = resolve(import.meta.dirname, "..");

/** Retired words, each with the word that replaced it. */
const retired: Record<string, string> = {
  lane: "queue",
  pulse: "heartbeat",
  piece: "chunk",
  splice: "resume",
  spliced: "resumed",
  settlement: "usage record",
  handover: "dispatch",
  hindrance: "blocked",
  resting: "cooldown",
  tries: "retry state",
  carry: "field support",
  carriage: "field support",
  hint: "ignored",
  around: "deps",
  surroundings: "deps",
  otherwise: "default",
  told: "notified",
  turned: "adapted",
  thoughtless: "supportsReasoning",
  room: "capacity",
  held: "queued",
};

/**
 * The words of `camelCase`, `PascalCase`, `SNAKE_CASE` and `kebab-case` names, in lower case and
 * singular.
 */
const wordsOf = (name: string) =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[^A-Za-z]+/)
    .map((word) => word.toLowerCase().replace(/(?<=lane|pulse|piece|splice|settlement|room|hint)s$/, ""));

const complaintsOf = (where: string, name: string) => {
  const words = wordsOf(name);
  const complaints = words
    .filter((word) => Object.hasOwn(retired, word))
    .map((word) => `${where}: ${name} (say ${retired[word]})`);
  const isBareCircuit = words.some(
    (word, index) => /^circuits?$/.test(word) && !/^breakers?$/.test(words[index + 1] ?? ""),
  );
  return isBareCircuit ? [...complaints, `${where}: ${name} (say circuit breaker)`] : complaints;
};

const files = globSync("{apps,libs,test,docs,infra}/**/*.{ts,js,md}", { cwd: root }).filter(
  (file) => !file.includes("node_modules"),
);

test("no file is named by a retired word", () => {
  assert.ok(files.length > 300);
  assert.deepEqual(
    files.flatMap((file) => complaintsOf(file, basename(file).replace(/\..*$/, ""))),
    [],
  );
});

test("no export is named by a retired word", () => {
  const exported =
    /^export (?:default )?(?:abstract )?(?:async )?(?:class|function\*?|const|let|interface|type|enum) ([\w$]+)/gm;
  const complaints = files
    .filter((file) => /\.(ts|js)$/.test(file))
    .flatMap((file) =>
      [...readFileSync(join(root, file), "utf8").matchAll(exported)].flatMap(([, name = ""]) =>
        complaintsOf(file, name),
      ),
    );
  assert.deepEqual(complaints, []);
});

/** Participles, adverbs and nouns that say nothing by themselves. */
const vague = new Set("given asked found known held said sorted placed patience unhurried".split(" "));
const lengthMax = 100;

const sources = globSync("{apps,libs,test,docs,infra}/**/*.{ts,tsx}", { cwd: root })
  .filter((file) => !file.includes("node_modules") && file !== "test/words.test.ts")
  .map((file) => ({ file, text: readFileSync(join(root, file), "utf8") }));

test("no member, parameter or local is a bare participle", () => {
  assert.ok(sources.length > 500);
  const complaints = sources.flatMap(({ file, text }) =>
    [...tokensIn(text)]
      .filter((token) => token.kind === SyntaxKind.Identifier && vague.has(token.text))
      .map((token) => `${file}:${text.slice(0, token.offset).split("\n").length}: ${token.text}`),
  );
  assert.deepEqual(complaints, []);
});

/** The lines of comments that stand on lines of their own. */
const commentLines = sources.flatMap(({ file, text }) =>
  text
    .split("\n")
    .flatMap((line, index) => (/^\s*(\/\/|\/\*|\*)/.test(line) ? [{ place: `${file}:${index + 1}`, line }] : [])),
);

test("no comment begins with What, Who, Of or Those", () => {
  const begins = /^\s*(\/\/|\/\*\*?) (What|Who|Of|Those)\b/;
  assert.deepEqual(
    commentLines.filter(({ line }) => begins.test(line)).map(({ place }) => place),
    [],
  );
});

/** Drawings, tables, addresses and instructions to tools cannot be wrapped. */
const cannotWrap = /\S {2,}\S|^ {4,}|[─│┌└├▶]|https?:|@type|biome-ignore/;

test("comments wrap at 100 characters", () => {
  const isLong = ({ line }: { line: string }) =>
    line.length > lengthMax && !cannotWrap.test(line.replace(/^\s*(\/\/|\/\*\*?|\*)/, ""));
  assert.deepEqual(
    commentLines.filter(isLong).map(({ place }) => place),
    [],
  );
});
