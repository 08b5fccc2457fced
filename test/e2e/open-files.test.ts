import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";

/** A process of a role that may open so many files. */
async function startWithin(openFilesMax: number, role: string, args: string, environment: Record<string, string>) {
  const child = spawn(
    "/bin/sh",
    ["-c", `ulimit -n ${openFilesMax} && exec "$0" apps/${role}/main.ts ${args}`, process.execPath],
    {
      cwd: join(import.meta.dirname, "../.."),
      env: { PATH: process.env.PATH, OPERATIONS_PORT: "0", LOG_LEVEL: "warn", ...environment },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    },
  );
  after(() => child.kill("SIGKILL"));
  const [{ urls }] = (await once(child, "message")) as [{ urls: Record<"api" | "operations", string> }];
  return { child, urls };
}

const openFilesMax = 200;
const gateway = await startGateway({
  workers: [],
  catalogue: catalogueOf([{ id: "slow", model: "sim-text;first=300;rate=0" }]),
});
after(() => gateway[Symbol.asyncDispose]());
const { urls } = await startWithin(openFilesMax, "ingress", "", { REDIS_URL: gateway.redis.url, PORT: "0" });
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

test("a worker takes only as many generations as it can open sockets for, and lives", async () => {
  const worker = await startWithin(120, "worker", "--queues chat=500", {
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
  });
  const ask = async () => {
    const response = await gateway.post({ model: "slow", messages: [{ role: "user", content: "hi" }] });
    await response.arrayBuffer();
    return response.status;
  };
  const statuses = await Promise.all(Array.from({ length: 300 }, ask));
  assert.deepEqual(
    statuses.filter((status) => status !== 200),
    [],
  );
  assert.equal(worker.child.exitCode, null);
});
