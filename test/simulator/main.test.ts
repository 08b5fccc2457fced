/** The simulator as a process of its own. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { ask, chatOf, tokensIn } from "./support.ts";

function start(t: TestContext, env: Record<string, string>): { child: ChildProcess; errors: () => string } {
  const child = fork("apps/simulator/main.ts", { env: { ...process.env, LOG_LEVEL: "silent", ...env }, silent: true });
  t.after(() => child.kill("SIGKILL"));
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk) => (errors += chunk));
  return { child, errors: () => errors };
}

test("the simulator announces its address, serves with its defaults and exits with code 0 on SIGTERM", async (t) => {
  const { child } = start(t, { SIMULATOR_DEFAULTS: "tokens=5" });
  const [message] = await once(child, "message");
  const { urls } = message as { urls: { simulator: string } };
  assert.match(urls.simulator, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(tokensIn((await ask({ url: urls.simulator, body: chatOf("sim-text") })).events).length, 5);
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("invalid defaults give a one-line error and exit code 78", async (t) => {
  const { child, errors } = start(t, { SIMULATOR_DEFAULTS: "speed=5" });
  assert.deepEqual(await once(child, "close"), [78, null]);
  assert.match(errors(), /^sluice simulator: SIMULATOR_DEFAULTS: There is no simulator setting "speed"[^\n]*\n$/);
});
