/**
 * Cleanup of whatever the files of a group share (test/groups.ts): it lasts longer than one file,
 * whose `after` comes at the file's end.
 */
import { after } from "node:test";

const endings: (() => Promise<unknown>)[] = [];
// At the end of the process' tests: this module is loaded before the first of them.
after(endAll);

/** For a script that has no tests. */
export async function endAll(): Promise<void> {
  for (const end of endings.splice(0).reverse()) await end();
}

/** Calls `end` when all tests of this process are over. */
export function atEnd(end: () => Promise<unknown>): void {
  endings.push(end);
}
