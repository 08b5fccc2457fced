/**
 * Node's test runner follows every promise, so that an uncaught error fails the test that made it.
 * That takes a tenth of a test's CPU time. Here it follows none: such an error fails its file.
 */
import asyncHooks, { type AsyncHook, type HookCallbacks } from "node:async_hooks";
import { syncBuiltinESMExports } from "node:module";

const { createHook } = asyncHooks;
const none: AsyncHook = { enable: () => none, disable: () => none };
const isOfRunner = () => /test_runner\/harness/.test(new Error().stack ?? "");

asyncHooks.createHook = (callbacks: HookCallbacks) => (isOfRunner() ? none : createHook(callbacks));
syncBuiltinESMExports();
