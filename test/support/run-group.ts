import { test } from "node:test";
import { filesOf, type Group } from "../groups.ts";
import "./at-end.ts";
import { followPromises } from "./unfollowed-promises.ts";

/**
 * Runs the files of a group, one after the other. The tests of a file are parts of its own test, so
 * that what it started stops at its end.
 */
export async function runGroup(group: Group): Promise<void> {
  await followPromises(async () => {
    for (const file of filesOf(group)) void test(file, () => followPromises(() => import(`../${file}`)));
  });
}
