import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { startRedis } from "../support/redis.ts";

test("a process whose log has no reader still ends on a signal", async () => {
  await using redis = await startRedis();
  const worker = spawn(process.execPath, ["apps/worker/main.ts", "--queues", "chat=1"], {
    cwd: join(import.meta.dirname, "../.."),
    env: { PATH: process.env.PATH, REDIS_URL: redis.url, LOG_LEVEL: "info", OPERATIONS_PORT: "0" },
    stdio: ["ignore", "pipe", "ignore", "ipc"],
  });
  worker.stdout?.destroy();
  await once(worker, "message");
  worker.kill("SIGTERM");
  const [code] = await once(worker, "exit", { signal: AbortSignal.timeout(20_000) });
  assert.equal(code, 0);
});
