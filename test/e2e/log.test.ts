import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
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

test("a process whose log can't be written serves on", { skip: process.platform !== "linux" }, async () => {
  await using redis = await startRedis();
  const full = openSync("/dev/full", "w");
  const ingress = spawn(process.execPath, ["apps/ingress/main.ts"], {
    cwd: join(import.meta.dirname, "../.."),
    env: { PATH: process.env.PATH, REDIS_URL: redis.url, LOG_LEVEL: "info", PORT: "0", OPERATIONS_PORT: "0" },
    stdio: ["ignore", full, "inherit", "ipc"],
  });
  closeSync(full);
  const [{ urls }] = (await once(ingress, "message")) as [{ urls: Record<"api", string> }];
  // Their lines are more than are written together.
  const statuses = new Set<number>();
  for (let request = 0; request < 100; request++) statuses.add((await fetch(`${urls.api}/v1/models`)).status);
  assert.deepEqual([...statuses], [401]);
  ingress.kill("SIGTERM");
  const [code] = await once(ingress, "exit", { signal: AbortSignal.timeout(20_000) });
  assert.equal(code, 0);
});
