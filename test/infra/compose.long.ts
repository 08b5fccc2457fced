/** The containers' commands and health checks, run as processes. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { until } from "../cli/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRedis } from "../support/redis.ts";
import { freePort } from "../support/tcp.ts";
import { roles, root } from "./compose.ts";

test("each role runs by its container's command and passes its health check, until SIGTERM", async () => {
  await using redis = await startRedis();
  await using postgres = await startPostgres();
  const databaseUrl = await postgres.createDatabase();
  const running: ChildProcess[] = [];
  try {
    for (const [name, { command, environment, healthcheck }] of roles) {
      const [operationsPort, port] = [await freePort(), await freePort()];
      const own: Record<string, string> = {
        REDIS_URL: redis.url,
        OPERATIONS_HOST: "127.0.0.1",
        OPERATIONS_PORT: String(operationsPort),
        HOST: "127.0.0.1",
        CONTROL_HOST: "127.0.0.1",
        DATABASE_URL: databaseUrl,
      };
      const ports: Record<string, string> = {
        PORT: String(port),
        SIMULATOR_PORT: String(port),
        CONTROL_PORT: String(port),
        SIMULATOR_URL: "http://127.0.0.1:1",
      };
      const variables = Object.keys(environment).map((setting): [string, string] => [
        setting,
        own[setting] ?? ports[setting] ?? substitutedOf(environment[setting]!),
      ]);
      const env = { PATH: process.env.PATH, NODE_ENV: "production", ...Object.fromEntries(variables) };
      const role = spawn(process.execPath, command.slice(1), { cwd: root, env, stdio: ["ignore", "ignore", "pipe"] });
      running.push(role);
      let errors = "";
      role.stderr!.on("data", (chunk) => {
        errors += chunk;
      });
      const [kind, program, ...args] = healthcheck!.test;
      assert.deepEqual([kind, program], ["CMD", "node"]);
      const isHealthy = () => spawnSync(process.execPath, args, { env, timeout: 3_000 }).status === 0;
      await until(`${name} to be healthy`, () => {
        assert.equal(role.exitCode, null, errors);
        return isHealthy();
      });
      role.kill("SIGTERM");
      assert.deepEqual(await once(role, "close"), [0, null], `${name} stops: ${errors}`);
      assert.equal(errors, "");
      assert.equal(isHealthy(), false);
    }
  } finally {
    for (const role of running) role.kill("SIGKILL");
  }
});

/** `${NAME:-default}` as compose substitutes it when no variable is set. */
const substitutedOf = (text: string) =>
  text.replaceAll(/\$\{\w+(?::-([^}]*))?[^}]*\}/g, (_whole, otherwise: string | undefined) => otherwise ?? "");
