/**
 * Node's test runner follows every promise, so that an uncaught error fails the test that made it.
 * That takes a tenth of a test's CPU time. Here it follows none: such an error fails its file.
 */
import asyncHooks, { type AsyncHook, type HookCallbacks } from "node:async_hooks";
import { syncBuiltinESMExports } from "node:module";

const { createHook } = asyncHooks;
const none: AsyncHook = { enable: () => none, disable: () => none };
const isOfRunner = () => /test_runner\/harness/.test(new Error().stack ?? "");
let ofRunner = none;
let isFollowing = false;

asyncHooks.createHook = (callbacks: HookCallbacks) => {
  if (!isOfRunner()) return createHook(callbacks);
  ofRunner = createHook(callbacks);
  if (isFollowing) ofRunner.enable();
  return none;
};
syncBuiltinESMExports();

/**
 * Lets the runner follow promises while this runs: a `test` or `after` that it reaches belongs to
 * the test around it.
 */
export async function followPromises<Result>(act: () => Promise<Result>): Promise<Result> {
  isFollowing = true;
  ofRunner.enable();
  try {
    return await act();
  } finally {
    isFollowing = false;
    ofRunner.disable();
  }
}
