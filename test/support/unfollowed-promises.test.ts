import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const source = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`;

/** The steps of a process that runs two files of a group, each with a start at its top level. */
function stepsOf(): string[] {
  const fileOf = (name: string) => `
    import { after, test } from "node:test";
    console.error("${name} starts");
    await undefined;
    after(() => console.error("${name} ends"));
    test("${name}", () => console.error("${name} runs"));`;
  const group = `
    import { test } from "node:test";
    import { followPromises } from ${JSON.stringify(import.meta.resolve("./unfollowed-promises.ts"))};
    const files = ${JSON.stringify(["a", "b"].map((name) => source(fileOf(name))))};
    await followPromises(async () => {
      for (const file of files) void test("file", () => followPromises(() => import(file)));
    });`;
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const options = ["--import", import.meta.resolve("./unfollowed-promises.ts"), "--input-type=module"];
  const { stderr } = spawnSync(process.execPath, options, { input: group, env, encoding: "utf8" });
  return stderr.trim().split("\n");
}

test("the files of a group run one after the other, and each ends what it started before the next", () => {
  assert.deepEqual(stepsOf(), ["a starts", "a runs", "a ends", "b starts", "b runs", "b ends"]);
});
