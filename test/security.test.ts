/** SECURITY.md: every promise names tests that exist. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

const text = readFileSync(new URL("../SECURITY.md", import.meta.url), "utf8");

test("each promise names its tests, and they exist", () => {
  const promises = [...text.matchAll(/^- \*\*(.+?)\.?\*\*/gm)].map(([, name]) => name);
  const rows = [...text.matchAll(/^\| (.+?) +\| (`.+`) +\|$/gm)].map(([, name, tests = ""]) => ({
    name,
    tests: [...tests.matchAll(/`([^`]+)`/g)].map(([, path]) => path as string),
  }));
  assert.deepEqual(rows.map(({ name }) => name).sort(), promises.sort());
  for (const { name, tests } of rows)
    for (const path of tests) assert.ok(existsSync(new URL(path, import.meta.url)), `${name}: ${path}`);
});
