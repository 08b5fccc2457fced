import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { programFor } from "../../apps/cli/test-programs.ts";

test("a program is found on PATH, and a missing one gives an error that says what to install", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "test-programs-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const program = {
    program: "Example 2",
    packageName: "example",
    find: (path: readonly string[]) => path.find((each) => each === directory),
  };
  assert.equal(programFor(program, { PATH: ["/nowhere", directory].join(delimiter) }), directory);
  assert.throws(
    () => programFor(program, { PATH: "/nowhere" }),
    /needs Example 2; install it \(on Debian: apt-get install example\)/,
  );
});
