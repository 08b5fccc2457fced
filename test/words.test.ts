/** One word for each concept (docs/glossary.md): file names and exports use no retired word. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { test } from "node:test";

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
