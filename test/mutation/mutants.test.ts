import assert from "node:assert/strict";
import { test } from "node:test";
import { mutantsOf } from "./mutants.ts";

const changesOf = (source: string) => mutantsOf(source).map(({ line, after }) => `${line}: ${after}`);

test("operators, conditions and statements are changed one at a time", () => {
  assert.deepEqual(changesOf("const far = a <= b && !c;"), [
    "1: const far = a < b && !c;",
    "1: const far = a <= b || !c;",
    "1: const far = a <= b && c;",
  ]);
  assert.deepEqual(changesOf("x\n  this.#count++;"), ["2: this.#count--;"]);
  assert.deepEqual(changesOf("  if (over) return;\n  this.#end(1);"), ["1: ;", "2: ;"]);
  assert.deepEqual(changesOf('redis.call("DEL", KEYS[1])'), ["1: "]);
});

test("comments, imports, strings, arrows and generics are not changed", () => {
  assert.deepEqual(
    changesOf(
      '/** a < b */\n * a < b\n// a < b\nimport x from "a < b";\nconst text = "a < b";\nconst of = (x: Map<string, A>) => x; // a < b',
    ),
    [],
  );
});
