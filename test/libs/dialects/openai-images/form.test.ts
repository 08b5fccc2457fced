/** Forms of edits, as clients of every language write them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { valuesOf } from "#dialects/openai-images/form.ts";

test("flags and numbers of forms are read as FastAPI's servers read them", () => {
  const cases: [name: string, text: string, value: unknown][] = [
    ["stream", "True", true],
    ["stream", "0", false],
    ["stream", "maybe", "maybe"],
    ["n", " 2 ", 2],
    ["n", "two", "two"],
    ["n", "1.5", 1.5],
    ["partial_images", "+3", 3],
    ["size", "1024x1024", "1024x1024"],
    ["prompt", " 1 ", " 1 "],
  ];
  for (const [name, text, value] of cases) {
    const form = new FormData();
    form.append(name, text);
    assert.deepEqual(valuesOf(form), { [name]: value });
  }
});
