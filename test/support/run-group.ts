import { test } from "node:test";
import { filesOf, type Group } from "../groups.ts";
import "./at-end.ts";

/** Runs the files of a group, one after the other. */
export function runGroup(group: Group): void {
  for (const file of filesOf(group)) test(file, () => import(`../${file}`));
}
