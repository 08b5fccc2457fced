/**
 * The containers' commands and health checks, run as processes; and docker-compose.yml as `docker
 * compose config` reads it. Without Docker's plugin, Go runs the library that the plugin is made
 * of, whose program substitutes no variables.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "../cli/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRedis } from "../support/redis.ts";
import { freePort } from "../support/tcp.ts";
import { roles, root, textOf } from "./compose.ts";

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
        SLUICE_CATALOGUE: `${root}catalogue.yaml`,
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

const secrets = Object.fromEntries(
  ["REDIS_PASSWORD", "POSTGRES_PASSWORD", "OPERATOR_TOKEN"].map((name) => [name, `any-${name.toLowerCase()}`]),
);
const hasPlugin = spawnSync("docker", ["compose", "version"]).status === 0;
/** The result of `docker compose config` for a file's text. */
function configOf(text: string, environment: Record<string, string>): { status: number | null; output: string } {
  const directory = mkdtempSync(join(tmpdir(), "compose-"));
  try {
    writeFileSync(join(directory, "docker-compose.yml"), text);
    const lines = Object.entries(environment).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(join(directory, ".env"), lines.join(""));
    const [program, ...args] = hasPlugin
      ? ["docker", "compose", "--profile", "*", "config", "--format", "json"]
      : [
          "go",
          "run",
          "github.com/compose-spec/compose-go/v2/cmd@v2.16.2",
          "-no-interpolation",
          "-format",
          "json",
          "docker-compose.yml",
        ];
    const { PATH, HOME, GOPATH, GOMODCACHE, DOCKER_CONFIG } = process.env;
    const env = { PATH, HOME, GOPATH, GOMODCACHE, DOCKER_CONFIG, GOFLAGS: "-mod=mod" };
    const { status, stdout, stderr, error } = spawnSync(program!, args, { cwd: directory, encoding: "utf8", env });
    assert.equal(error, undefined, "neither docker compose nor Go 1.26 (https://go.dev/dl) is here");
    return { status, output: `${stdout}${status === 0 ? "" : stderr}` };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("docker compose accepts the file, and refuses it without its secrets or with an unknown setting", () => {
  const text = textOf("docker-compose.yml");
  const { status, output } = configOf(text, secrets);
  assert.equal(status, 0, output);
  const { services } = JSON.parse(output) as { services: Record<string, { environment?: Record<string, string> }> };
  for (const [name] of roles) assert.ok(services[name] !== undefined, name);
  const faulty = configOf(text.replace("stop_signal: SIGQUIT", "stop_sginal: SIGQUIT"), secrets);
  assert.notEqual(faulty.status, 0);
  assert.match(faulty.output, /stop_sginal/);
  if (!hasPlugin) return;
  assert.equal(services.control!.environment!.OPERATOR_TOKEN, "any-operator_token");
  assert.equal(services.ingress!.environment!.OPENAI_API_KEY, "");
  for (const name of Object.keys(secrets)) {
    const { [name]: _, ...others } = secrets;
    const refused = configOf(text, others);
    assert.notEqual(refused.status, 0);
    assert.match(refused.output, new RegExp(`${name} is missing a value: run sh infra/set-up.sh`));
  }
});

/** `${NAME:-default}` as compose substitutes it when no variable is set. */
const substitutedOf = (text: string) =>
  text.replaceAll(/\$\{\w+(?::-([^}]*))?[^}]*\}/g, (_whole, otherwise: string | undefined) => otherwise ?? "");
