/**
 * `npm start`: runs Redis, simulator, worker, ingress and control as processes of one supervisor.
 */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { loadCatalogue } from "#catalogue/load.ts";
import { listenSettings, readSettings, serviceConfigOf } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { takeLock } from "#service/lock.js";
import { misspelledVariablesOf } from "#service/misspelled-variables.ts";
import { withRedis } from "#service/redis.ts";
import { redisAddressOf } from "#service/redis-url.ts";
import { isConfigured, withSecrets } from "#service/secret-files.ts";
import { StartupFault } from "#service/startup.ts";
import { bannerOf } from "./banner.ts";
import { buildConsole } from "./console-build.ts";
import { ensureFirstKey } from "./first-key.ts";
import { boundLogs, rotateLogs } from "./logs.ts";
import { endOrphanedRedis, guardRedis, privateRedisPlan, privateRedisUrlOf, repairData } from "./private-redis.ts";
import { ensureRedisProgram } from "./redis-program.ts";
import { type Role, type RoleCommands, roleCommands, roleEnvironmentOf, rolePlan } from "./roles.ts";
import { checkout, ensureSecret, openState, type Ready, readReady, type State, writePrivately } from "./state.ts";
import { onStopRequests } from "./stop-requests.ts";
import { type Plan, type Supervised, supervise, type Urls } from "./supervise.ts";

const say = (line: string) => void process.stdout.write(`${line}\n`);
const complain = (line: string) => void process.stderr.write(`${line}\n`);

/** The supervised processes of a gateway, and the ready file that lists them. */
class Processes {
  readonly #readyFile: string;
  readonly #resources: AsyncDisposableStack;
  readonly #supervised: Supervised[] = [];
  #ready: Omit<Ready, "pids"> | undefined;

  /** `resources` stops the processes in reverse order. */
  constructor({ readyFile }: State, resources: AsyncDisposableStack) {
    this.#readyFile = readyFile;
    this.#resources = resources;
  }

  start(plan: Plan): Supervised {
    const supervised = supervise(plan, complain, () => this.#rewriteReady());
    this.#supervised.push(supervised);
    this.#resources.defer(() => supervised.stop());
    return supervised;
  }

  /** Writes the ready file now, and again whenever a process ends or restarts. */
  announce(ready: Omit<Ready, "pids">): void {
    this.#resources.defer(() => {
      this.#ready = undefined;
      rmSync(this.#readyFile, { force: true });
    });
    this.#ready = ready;
    this.#writeReady();
  }

  kill(): void {
    for (const supervised of this.#supervised) {
      void supervised.stop();
      supervised.kill();
    }
  }

  /** A full disk must not end the processes; their next change writes it again. */
  #rewriteReady(): void {
    try {
      this.#writeReady();
    } catch (error) {
      complain(`sluice: the list of processes could not be written: ${(error as Error).message}`);
    }
  }

  #writeReady(): void {
    if (this.#ready === undefined) return;
    const pids = this.#supervised.map(({ name, pid }) => [name, pid()]).filter(([, pid]) => pid !== undefined);
    const ready = { ...this.#ready, pids: { sluice: process.pid, ...Object.fromEntries(pids) } };
    writePrivately(this.#readyFile, `${JSON.stringify(ready, null, 2)}\n`);
  }
}

/**
 * Runs the gateway of a checkout until a signal; resolves to the exit code. A startup error is one
 * line on stderr and exit code 1, after all started processes have ended.
 */
export async function start(
  environment: Environment,
  root = checkout,
  commands: RoleCommands = roleCommands,
): Promise<number> {
  const requests = onStopRequests();
  const resources = new AsyncDisposableStack();
  try {
    await run(environment, root, commands, requests, resources);
    return 0;
  } catch (error) {
    if (requests.stop.aborted) return 0;
    if (!(error instanceof StartupFault || error instanceof CatalogueFault)) throw error;
    complain(`sluice: ${error.message}`);
    return 1;
  } finally {
    await resources.disposeAsync();
  }
}

/** Everything that it starts is added to `resources`, which ends them in reverse order. */
async function run(
  userEnvironment: Environment,
  root: string,
  commands: RoleCommands,
  requests: StopRequests,
  resources: AsyncDisposableStack,
): Promise<void> {
  const environment = withSecrets(userEnvironment, "REDIS_URL");
  const config = { ...serviceConfigOf(environment), ...readSettings(listenSettings, environment) };
  const catalogueFile = resolve(root, config.catalogueFile);
  const catalogue = loadCatalogue(catalogueFile, environment);
  for (const { variable, nearest } of misspelledVariablesOf(environment, catalogue))
    complain(`sluice: nothing reads the environment variable ${variable}; did you mean ${nearest}?`);

  const state = openState(root);
  lockState(state, resources);
  rmSync(state.readyFile, { force: true });
  const logFiles = ["redis", "simulator", "worker", "ingress", "control", "console"].map((name) =>
    join(state.logs, `${name}.log`),
  );
  rotateLogs(logFiles);
  resources.defer(boundLogs(logFiles));
  const console = buildConsole(root, state.consoles, join(state.logs, "console.log"));
  const processes = new Processes(state, resources);
  requests.hurry.addEventListener("abort", () => {
    say("Stopping now …");
    processes.kill();
  });

  const redis = await startRedis(environment, state, requests.stop, processes, resources);
  const group = catalogue.groups.has("default") ? "default" : [...catalogue.groups.keys()][0]!;
  const key = await withRedis(redis.url, (connection) =>
    ensureFirstKey(state, connection, keyspaceOf(config.namespace), group),
  );
  requests.stop.throwIfAborted();

  say("Starting simulator, worker, ingress and control …");
  const place = { root, logs: state.logs, commands, lifeline: redis.lifeline };
  const shared = {
    ...environment,
    REDIS_URL: redis.url,
    SLUICE_CATALOGUE: catalogueFile,
    ...(!isConfigured("OPERATOR_TOKEN", environment) && { OPERATOR_TOKEN: ensureSecret(state.operatorTokenFile) }),
    ...(!isConfigured("INTERNAL_SECRET", environment) && { INTERNAL_SECRET: ensureSecret(state.internalSecretFile) }),
    ...(!isConfigured("CREDENTIALS_SECRET", environment) && {
      CREDENTIALS_SECRET: ensureSecret(state.credentialsSecretFile),
    }),
    CONTROL_INTERNAL_ADDRESS: `unix:${state.controlSocket}`,
    CONTROL_INTERNAL_URL: `unix:${state.controlSocket}`,
  };
  const urls = await startRoles({ ...config, consoleDirectory: console.directory }, requests, (role, own) => {
    const {
      HOST: _,
      PORT: __,
      OPERATIONS_PORT: ___,
      ...visible
    } = roleEnvironmentOf(role, shared, catalogue.credentialVariables);
    return processes.start(rolePlan(role, place, { ...visible, ...own })).serving;
  });

  const failure = await console.done;
  if (failure !== undefined) complain(`sluice: ${failure}`);
  const address = addressOf(config.host, urls.ingress);
  const ready = {
    baseUrl: `${address}/v1`,
    address,
    key,
    consoleUrl: urls.control.control!,
    controlUrl: urls.control.control!,
    operationsUrls: {
      ingress: urls.ingress.operations!,
      worker: urls.worker.operations!,
      control: urls.control.operations!,
    },
    simulatorUrl: urls.simulator.simulator!,
    redisUrl: redis.url,
  };
  processes.announce(ready);
  say(bannerOf(ready, modelFor(catalogue, group), state.logs));
  await requests.requested;
  say("Stopping: finishing running requests (press Ctrl-C again to stop now) …");
}

/** Starts the simulator, then the others together; resolves to their addresses. */
async function startRoles(
  {
    host,
    port,
    operationsPort,
    consoleDirectory,
  }: { host: string; port: number; operationsPort: number; consoleDirectory: string },
  { unlessStopped }: StopRequests,
  startRole: (role: Role, own: Environment) => Promise<Urls>,
): Promise<Record<Role, Urls>> {
  const simulator = await unlessStopped(
    startRole("simulator", { HOST: "127.0.0.1", PORT: "0", SIMULATOR_PORT: "0", OPERATIONS_PORT: "0" }),
  );
  const shared = { SIMULATOR_URL: simulator.simulator };
  const portAfter = (count: number) => String(operationsPort && operationsPort + count);
  const starting = [
    startRole("worker", { ...shared, OPERATIONS_PORT: portAfter(1) }),
    startRole("ingress", { ...shared, HOST: host, PORT: String(port), OPERATIONS_PORT: portAfter(0) }),
  ] as const;
  const startControl = async (ingress: Promise<Urls>) =>
    startRole("control", {
      ...shared,
      OPERATIONS_PORT: portAfter(2),
      CONSOLE_DIRECTORY: consoleDirectory,
      GATEWAY_URL: addressOf(host, await ingress),
      INGRESS_URL: addressOf(host, await ingress),
    });
  const [worker, ingress, control] = await unlessStopped(Promise.all([...starting, startControl(starting[1])]));
  return { simulator, worker, ingress, control };
}

type StopRequests = ReturnType<typeof onStopRequests>;

function lockState(state: State, resources: AsyncDisposableStack): void {
  const lock = takeLock(state.lockFile);
  if (lock.kind === "locked") {
    const address = readReady(state)?.address;
    throw new StartupFault(
      `the gateway already runs in this checkout (process ${lock.pid}${address ? `, ${address}` : ""}); stop it first`,
    );
  }
  resources.defer(lock.release);
}

/** Connects to the Redis of REDIS_URL, or starts a private one. */
async function startRedis(
  environment: Environment,
  state: State,
  stop: AbortSignal,
  processes: Processes,
  resources: AsyncDisposableStack,
) {
  if (environment.REDIS_URL) {
    say(`Using Redis at ${redisAddressOf(environment.REDIS_URL)}`);
    await checkRedis(environment.REDIS_URL);
    return { url: environment.REDIS_URL, lifeline: undefined };
  }
  const program = await ensureRedisProgram(environment, state, stop);
  stop.throwIfAborted();
  say(`Starting a private Redis (${program.version}) …`);
  await endOrphanedRedis(state);
  const guard = guardRedis(state);
  resources.defer(guard.dismiss);
  const plan = privateRedisPlan(program.path, state);
  await processes.start(plan).serving.catch(async (error: unknown) => {
    const repaired = await repairData(program.path, state);
    if (repaired === undefined) throw error;
    complain(`sluice: ${repaired}`);
    await processes.start(plan).serving;
  });
  return { url: privateRedisUrlOf(state), lifeline: guard.lifeline };
}

/**
 * Throws a StartupFault for an unreachable or old Redis. Valkey reports the Redis version that it
 * is compatible with. A server that refuses INFO is accepted.
 */
async function checkRedis(url: string): Promise<void> {
  const info = await withRedis(url, (redis) => redis.info("server").catch(() => ""));
  const [, version, major] = /^redis_version:((\d+)[\d.]*)/m.exec(info) ?? [];
  if (Number(major) < 7)
    throw new StartupFault(
      `the Redis at ${redisAddressOf(url)} has version ${version}; version 7 or newer is required`,
    );
}

/** A simulated model if there is one, so that the first call is free. */
function modelFor(catalogue: Catalogue, group: string): string {
  const ids = catalogue.modelsOf(group).map(({ id }) => id);
  return ids.find((id) => id.startsWith("sim-")) ?? ids[0] ?? "no-model-in-the-catalogue";
}

/** The address for callers on this machine. */
const addressOf = (host: string, { api }: Urls): string => `http://${callableHostOf(host)}:${new URL(api!).port || 80}`;

/** The host in URLs for a server that listens on `host`. */
function callableHostOf(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}
