/**
 * The image, for real: built from infra/Dockerfile, then every role in a container, as
 * docker-compose.yml and the Helm chart run them. `npm run test:image` needs Podman, a Redis and a
 * Postgres; where the base image cannot be pulled also root and debootstrap.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmodSync } from "node:fs";
import { dirname } from "node:path";
import { after, before, test } from "node:test";
import { sbomOf } from "../../infra/release.ts";
import { until } from "../cli/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { readStream } from "../support/stream.ts";
import { freePort } from "../support/tcp.ts";
import { roles, root, textOf } from "./compose.ts";
import { baseImage, buildImage, containerArguments, podman, podmanSucceeds, runContainer } from "./podman.ts";

const image = "localhost/sluice:test";
const bytesMax = 600e6;
/** More than a container of these tests drains. */
const stopMsMax = 60_000;
/**
 * The user as a number, because a call of Podman sees no user names of a container that another
 * call started.
 */
const inContainer = (name: string, ...command: string[]) => podman("exec", "--user", "1000:1000", name, ...command);

assert.equal(
  spawnSync("podman", ["--version"]).status,
  0,
  "podman is missing: install Debian's packages podman, crun and buildah, or those of your system",
);

interface Container {
  name: string;
  process: ChildProcess;
  output(): string;
  /** SIGTERM, then waits for its end; returns the exit code. */
  stop(): Promise<number | null>;
}

/** Ends everything that was started, also after a failure in the middle of a start. */
const resources = new AsyncDisposableStack();
let redis: TestRedis;
let databaseUrl: string;
let sockets: string[];
let ports: Record<
  "operations" | "operationsOfWorker" | "operationsOfControl" | "api" | "control" | "simulator",
  number
>;

before(async () => {
  redis = resources.use(await startRedis());
  const postgres = resources.use(await startPostgres());
  databaseUrl = await postgres.createDatabase();
  // The containers' user reaches the servers' sockets, and nothing else of these directories.
  const redisSocket = redis.url.replace("unix://", "");
  const postgresDirectory = new URL(databaseUrl.replace("@/", "@localhost/")).searchParams.get("host")!;
  for (const directory of [dirname(redisSocket), postgresDirectory]) chmodSync(directory, 0o711);
  chmodSync(redisSocket, 0o777);
  sockets = [dirname(redisSocket), postgresDirectory].flatMap((path) => ["--volume", `${path}:${path}`]);
  const names = ["operations", "operationsOfWorker", "operationsOfControl", "api", "control", "simulator"] as const;
  ports = {} as typeof ports;
  for (const name of names) ports[name] = await freePort();
  const [, base = ""] = /^FROM (\S+) AS base$/m.exec(textOf("infra/Dockerfile")) ?? [];
  buildImage(image, baseImage(base));
});

after(() => resources.disposeAsync());

/** The command of a service of docker-compose.yml in a container. */
function start(service: string, environment: Record<string, string>): Container {
  const [, { command }] = roles.find(([name]) => name === service)!;
  const name = `sluice-${service}-${randomUUID().slice(0, 8)}`;
  const all = { REDIS_URL: redis.url, SIMULATOR_URL: `http://127.0.0.1:${ports.simulator}`, ...environment };
  const variables = Object.entries(all).flatMap(([key, value]) => ["--env", `${key}=${value}`]);
  const process = runContainer(["--name", name, ...sockets, ...variables, image, ...command]);
  const ended = once(process, "exit");
  resources.defer(async () => {
    podmanSucceeds("rm", "--force", "--time", "1", name);
    process.kill("SIGKILL");
    await ended;
  });
  let output = "";
  for (const stream of [process.stdout!, process.stderr!])
    stream.on("data", (chunk) => {
      output += chunk;
    });
  return {
    name,
    process,
    output: () => output,
    async stop() {
      process.kill("SIGTERM");
      const timer = setTimeout(() => process.kill("SIGKILL"), stopMsMax);
      await ended;
      clearTimeout(timer);
      return process.exitCode;
    },
  };
}

const isOk = (url: string) =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );

/** Waits until the service's own health check succeeds inside the container. */
async function whenHealthy(service: string, container: Container, port: number, path = "/readyz"): Promise<void> {
  await until(`${service} to be ready`, () => {
    assert.equal(container.process.exitCode, null, container.output());
    return isOk(`http://127.0.0.1:${port}${path}`);
  });
  const [, { healthcheck }] = roles.find(([name]) => name === service)!;
  inContainer(container.name, ...healthcheck!.test.slice(1));
}

test("the image has no more than the roles need, and is not root's", (t) => {
  const [{ Size: bytes, Config: config }] = JSON.parse(podman("image", "inspect", image)) as [
    { Size: number; Config: { User: string; Cmd: string[] } },
  ];
  t.diagnostic(`${Math.round(bytes / 1e6)} MB`);
  assert.ok(bytes < bytesMax, `${bytes} bytes`);
  assert.deepEqual([config.User, config.Cmd], ["node", ["node", "apps/ingress/main.ts"]]);
  const list = (path: string) => podman(...containerArguments, image, "ls", path).split("\n");
  assert.deepEqual(list("/srv/sluice").sort(), [
    "apps",
    "catalogue.yaml",
    "console",
    "libs",
    "node_modules",
    "package.json",
  ]);
  const modules = list("/srv/sluice/node_modules");
  const { packages } = JSON.parse(
    podman(...containerArguments, image, "cat", "/srv/sluice/node_modules/.package-lock.json"),
  ) as { packages: Record<string, { version: string }> };
  const installed = Object.entries(packages).map(
    ([path, one]) => `${path.split("node_modules/").at(-1)}@${one.version}`,
  );
  const listed = sbomOf(root).components.map((component) => `${component.name}@${component.version}`);
  assert.deepEqual(listed.sort(), [...new Set(installed)].sort(), "the list of a release's packages");
  for (const name of ["typescript", "vite", "playwright-core", "@biomejs"]) assert.ok(!modules.includes(name), name);
});

test("every role runs read-only, passes its health check, and answers through the others", async () => {
  const operations = (port: number) => ({ OPERATIONS_HOST: "127.0.0.1", OPERATIONS_PORT: String(port) });
  const token = randomUUID() + randomUUID();
  const usage = { USAGE_DIRECTORY: "/var/lib/sluice/usage" };
  const simulator = start("simulator", {
    HOST: "127.0.0.1",
    SIMULATOR_PORT: String(ports.simulator),
    SIMULATOR_DEFAULTS: "tokens=60,rate=20",
  });
  await whenHealthy("simulator", simulator, ports.simulator, "/healthz");
  const startWorker = () => start("worker-chat", { ...operations(ports.operationsOfWorker), ...usage });
  const worker = startWorker();
  const ingress = start("ingress", {
    ...operations(ports.operations),
    ...usage,
    PORT: String(ports.api),
    DRAIN_NOTICE_MS: "500",
  });
  const control = start("control", {
    ...operations(ports.operationsOfControl),
    ...usage,
    CONTROL_PORT: String(ports.control),
    SLUICE_CONTROL_URL: `http://127.0.0.1:${ports.control}`,
    DATABASE_URL: databaseUrl,
    OPERATOR_TOKEN: token,
  });
  await Promise.all([
    whenHealthy("worker-chat", worker, ports.operationsOfWorker),
    whenHealthy("ingress", ingress, ports.operations),
    whenHealthy("control", control, ports.operationsOfControl),
  ]);
  const page = await fetch(`http://127.0.0.1:${ports.control}/`, { headers: { accept: "text/html" } });
  assert.match(await page.text(), /src="\/assets\//, "control serves the console");

  for (const { name } of [simulator, worker, ingress, control]) {
    const status = inContainer(name, "cat", "/proc/1/status");
    assert.match(status, /^Uid:\t1000\t1000\t1000\t1000$/m, name);
    assert.match(status, /^CapEff:\t0{16}$/m, name);
    assert.match(status, /^NoNewPrivs:\t1$/m, name);
    assert.throws(() => inContainer(name, "touch", "/srv/sluice/file"), /Read-only file system/);
  }

  const create = "apps/cli/main.ts keys create --group default --name test --json".split(" ");
  const created = inContainer(control.name, "node", ...create);
  const key = /sk-[\w-]+/.exec(created)?.[0] ?? assert.fail(created);
  // As docs/backup.md says it.
  const backup = inContainer(control.name, ..."node apps/cli/main.ts db export".split(" "));
  assert.match(backup, /^\{"sluice":"database"[\s\S]*\n\{"table":"keys",/);
  const ask = () =>
    fetch(`http://127.0.0.1:${ports.api}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "sim-text", stream: true, messages: [{ role: "user", content: "Hello" }] }),
    });
  await until("the ingress to know the key", async () => {
    const { status } = await readStream(await ask());
    assert.ok(status === 200 || status === 401, `${status} ${ingress.output()}`);
    return status === 200;
  });

  // A stop in the middle of a stream.
  const stream = async (stop: () => Promise<number | null>) => {
    let stopped: Promise<number | null> | undefined;
    const read = await readStream(await ask(), (chunks) => {
      if (chunks >= 5) stopped ??= stop();
    });
    assert.deepEqual([read.status, read.done, read.error, read.broken], [200, true, undefined, false]);
    assert.equal(await stopped, 0);
  };
  await stream(() => worker.stop());
  const second = startWorker();
  await whenHealthy("worker-chat", second, ports.operationsOfWorker);
  await stream(() => ingress.stop());
  assert.equal(await isOk(`http://127.0.0.1:${ports.operations}/readyz`), false);
  for (const container of [second, control, simulator]) assert.equal(await container.stop(), 0, container.output());
});
