import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { metricsOf } from "../support/metrics.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";

const openFilesMax = 200;
const redis = await startRedis();
const ingress = spawn(
  "/bin/sh",
  ["-c", `ulimit -n ${openFilesMax} && exec "$0" apps/ingress/main.ts`, process.execPath],
  {
    cwd: join(import.meta.dirname, "../.."),
    env: { PATH: process.env.PATH, REDIS_URL: redis.url, PORT: "0", OPERATIONS_PORT: "0", LOG_LEVEL: "warn" },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  },
);
after(async () => {
  ingress.kill("SIGKILL");
  await redis.stop();
});
const [{ urls }] = (await once(ingress, "message")) as [{ urls: Record<"api" | "operations", string> }];
const readiness = async () => {
  const response = await fetch(`${urls.operations}/readyz`);
  return { code: response.status, reason: ((await response.json()) as { reason?: string }).reason };
};
const metric = async (name: string) => {
  const text = await metricsOf({ urls });
  return Number(new RegExp(`^${name} (\\d+)`, "m").exec(text)?.[1]);
};

test("an ingress near its open file limit is not ready until some are closed, and its metrics show the usage", async () => {
  assert.equal((await readiness()).code, 200);
  assert.equal(await metric("process_max_fds"), openFilesMax);
  const few = await metric("process_open_fds");
  const { hostname, port } = new URL(urls.api);
  const sockets: Socket[] = [];
  const opened = async (count: number) => {
    while (sockets.length < count) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => undefined);
      sockets.push(socket);
      await once(socket, "connect");
    }
    await until("the ingress has them", async () => (await metric("process_open_fds")) >= few + count);
  };
  // Well below nine tenths, and then above.
  await opened(Math.floor(0.8 * openFilesMax) - few);
  assert.equal((await readiness()).code, 200);
  await opened(Math.ceil(0.93 * openFilesMax) - few);
  await until("it is not ready", async () => (await readiness()).code === 503);
  assert.match(String((await readiness()).reason), /^\d+ of 200 open files$/);
  for (const socket of sockets) socket.destroy();
  await until("it is ready again", async () => (await readiness()).code === 200);
});
