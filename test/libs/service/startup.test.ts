import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";

test("a signal during the start stops the process in order once it has started", async (t) => {
  const child = fork(join(import.meta.dirname, "fixtures", "slow-start.ts"), { env: { LOG_LEVEL: "silent" } });
  t.after(() => child.kill("SIGKILL"));
  const messages: unknown[] = [];
  child.on("message", (message) => messages.push(message));
  await once(child, "message");
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  child.send("go on");
  assert.deepEqual(await exited, [0, null]);
  assert.deepEqual(messages, ["starting", { type: "listening", urls: {} }, "stopped in order"]);
});
