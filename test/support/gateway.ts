/**
 * The whole gateway on a real Redis, with the simulator as the only upstream: inside the test
 * process, or as processes where a test is about processes, signals or what a process writes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { createKey } from "#access/key.ts";
import { addRecord } from "#access/projection.ts";
import type { KeyRecord } from "#access/record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startRedis, type TestRedis } from "./redis.ts";
import { startIngress, startSimulator, startWorker } from "./roles.ts";
import { until } from "./time.ts";

const root = join(import.meta.dirname, "..", "..");

/** A running role. */
export interface Role {
  readonly urls: Record<string, string>;
  /** Throws for a role inside the test process, as do `complaints`, `freeze` and `thaw`. */
  readonly process: ChildProcess;
  readonly hasEnded: boolean;
  /** Its output on stderr. */
  readonly complaints: () => string;
  /**
   * SIGTERM, then waits for its end; returns the exit code. Inside the test process: drains and
   * closes.
   */
  stop(): Promise<number | null>;
  /** SIGKILL, then waits for its end. Inside the test process: closes. */
  kill(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

/**
 * Starts a role of a checkout and waits until it listens. Its exit before that is an error with its
 * stderr.
 */
export async function startRole(
  role: string,
  args: string[],
  environment: Record<string, string>,
  checkout = root,
): Promise<Role> {
  const child = spawn(process.execPath, [`apps/${role}/main.ts`, ...args], {
    cwd: checkout,
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      LOG_LEVEL: "warn",
      ...environment,
    },
    stdio: ["ignore", process.env.TEST_LOGS ? "inherit" : "ignore", "pipe", "ipc"],
  });
  let complaints = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    complaints = (complaints + chunk.toString()).slice(-10_000);
  });
  const exited = once(child, "exit");
  const listening = new Promise<Record<string, string>>((resolve, reject) => {
    child.on("message", (message: { type: string; urls: Record<string, string> }) => {
      if (message.type === "listening") resolve(message.urls);
    });
    child.on("exit", (code, signal) => reject(new Error(`${role} ended with ${code ?? signal}: ${complaints}`)));
  });
  const urls = await listening;
  return {
    urls,
    process: child,
    get hasEnded() {
      return child.exitCode !== null || child.signalCode !== null;
    },
    complaints: () => complaints,
    async stop() {
      child.kill("SIGTERM");
      await exited;
      return child.exitCode;
    },
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
  };
}

/** Starts a role inside the test process. */
async function startRoleHere(role: string, args: string[], environment: Record<string, string>): Promise<Role> {
  const { urls, stop, close } =
    role === "ingress"
      ? await startIngress(environment)
      : role === "worker"
        ? await startWorker(environment, args)
        : await startSimulator(environment);
  let hasEnded = false;
  const processesOnly = (): never => {
    throw new Error("this gateway runs inside the test process: start it with `processes`");
  };
  const ending = (end: () => Promise<void>) => async () => {
    if (hasEnded) return;
    hasEnded = true;
    await end();
  };
  return {
    urls,
    get process() {
      return processesOnly();
    },
    get hasEnded() {
      return hasEnded;
    },
    complaints: processesOnly,
    stop: () => ending(stop)().then(() => 0),
    kill: ending(close),
    freeze: processesOnly,
    thaw: processesOnly,
  };
}

export interface GatewayOptions {
  /**
   * Which roles are processes, which can be killed and frozen; by default all run inside the test
   * process. "all" includes the simulator.
   */
  processes?: "all" | "workers";
  ingresses?: number;
  /** Redis keeps its data when it is killed. */
  isDurable?: boolean;
  /** The queues of each worker. */
  workers?: string[];
  /**
   * The file's text; `${SIMULATOR_URL}` in an upstream's address is the simulator. The default
   * offers every simulator model `test/…` names.
   */
  catalogue?: string;
  /**
   * For every process of the gateway. With a `REDIS_URL` the gateway does not use its own Redis.
   */
  environment?: Record<string, string>;
}

export interface SeenRequest {
  model: string;
  status: number;
  outcome?: string;
  chunksSent: number;
  at: number;
  closedAt?: number;
  bodyBytes: number;
  bodySha256: string;
}

export interface Gateway extends AsyncDisposable {
  readonly redis: TestRedis;
  readonly simulatorUrl: string;
  readonly ingresses: Role[];
  readonly workers: Role[];
  readonly catalogueFile: string;
  /** A key of the group `default`. */
  readonly key: string;
  /** The first ingress's address, without /v1. */
  readonly url: string;
  /** A key that every ingress knows; `more` goes into its record. */
  createKey(group: string, more?: Partial<KeyRecord>): Promise<string>;
  /** `asProcess`: a process, whatever the gateway's other roles are. */
  addIngress(environment?: Record<string, string>, asProcess?: boolean): Promise<Role>;
  addWorker(queues: string, environment?: Record<string, string>, asProcess?: boolean): Promise<Role>;
  /** An official client without retries of its own, of the first ingress unless told otherwise. */
  client(options?: { url?: string; key?: string; retries?: number }): OpenAI;
  /** POST /v1/chat/completions as plain fetch. */
  post(
    body: unknown,
    options?: { url?: string; key?: string; signal?: AbortSignal; headers?: Record<string, string> },
  ): Promise<Response>;
  /** Requests for a model that the simulator saw. */
  seen(model: string): Promise<SeenRequest[]>;
}

const ids = ["sim-text", "sim-fast", "sim-slow"];

/**
 * Of callers that may leave: fetch cancels a response that is collected as garbage, so it lives as
 * long as its signal.
 */
const callersResponses = new WeakMap<AbortSignal, Response>();

/**
 * A catalogue with these models, each served by the simulator model of the same line, and `queue:
 * image` for those named so.
 */
export function catalogueOf(models: { id: string; model: string; queue?: string }[], more = ""): string {
  const lines = models.map(
    ({ id, model, queue = "chat" }) =>
      `  - { id: "${id}", retries: 0, queue: ${queue}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: simulator, model: "${model}" }] }`,
  );
  return `groups:\n  default: { models: ["*"] }\n  narrow: { models: ["${models[0]?.id}"] }\nupstreams:\n  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\n${more}models:\n${lines.join("\n")}\n`;
}

export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-gateway-"));
  const cleanups: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
  try {
    const redis = await startRedis({ isDurable: options.isDurable ?? false });
    cleanups.push(async () => redis[Symbol.asyncDispose]());
    const starterOf = (role: "ingress" | "worker", asProcess: boolean) =>
      asProcess || options.processes === "all" || (role === "worker" && options.processes === "workers")
        ? startRole
        : startRoleHere;
    const simulator = await (options.processes === "all" ? startRole : startRoleHere)("simulator", [], {});
    cleanups.push(() => simulator.kill());
    const simulatorUrl = simulator.urls.simulator as string;
    const catalogueFile = join(directory, "catalogue.yaml");
    await writeFile(
      catalogueFile,
      options.catalogue ??
        catalogueOf(ids.map((id) => ({ id, model: id === "sim-fast" ? "sim-text;rate=0;first=0" : "sim-text" }))),
    );
    const environment = {
      REDIS_URL: redis.url,
      SLUICE_CATALOGUE: catalogueFile,
      SIMULATOR_URL: simulatorUrl,
      PORT: "0",
      ...options.environment,
    };
    const ingresses: Role[] = [];
    const workers: Role[] = [];
    const addIngress = async (more: Record<string, string> = {}, asProcess = false) => {
      const role = await starterOf("ingress", asProcess)("ingress", [], { ...environment, ...more });
      ingresses.push(role);
      return role;
    };
    const addWorker = async (queues: string, more: Record<string, string> = {}, asProcess = false) => {
      const role = await starterOf("worker", asProcess)("worker", ["--queues", queues], { ...environment, ...more });
      workers.push(role);
      return role;
    };
    cleanups.push(() =>
      Promise.all(
        [...ingresses, ...workers].map(async (role) => {
          if (!role.hasEnded) await role.kill();
        }),
      ),
    );

    const addKey = async (group: string, more: Partial<KeyRecord> = {}) => {
      const connection = await connectRedis(environment.REDIS_URL, "patient");
      try {
        const { key, hash, hint } = createKey();
        const record = {
          id: `key_${hash.slice(0, 24)}`,
          name: `test-${hint}`,
          group,
          hint,
          createdAt: Date.now(),
          ...more,
        };
        await addRecord(connection, keyspaceOf("sluice"), hash, record);
        return key;
      } finally {
        connection.disconnect();
      }
    };
    const key = await addKey("default");
    await Promise.all([
      ...Array.from({ length: options.ingresses ?? 1 }, () => addIngress()),
      ...(options.workers ?? ["chat=64,image=4"]).map((queues) => addWorker(queues)),
    ]);
    const url = ingresses[0]?.urls.api as string;

    return {
      redis,
      simulatorUrl,
      ingresses,
      workers,
      catalogueFile,
      key,
      url,
      createKey: async (group, more) => {
        const added = await addKey(group, more);
        // They learn of it a moment later, and one that was ended never.
        const living = ingresses.filter(({ hasEnded }) => !hasEnded);
        const knows = async ({ urls }: Role) =>
          (await fetch(`${urls.api}/v1/models`, { headers: { authorization: `Bearer ${added}` } })).ok;
        for (const ingress of living) await until("the key is known", () => knows(ingress));
        return added;
      },
      addIngress,
      addWorker,
      client: (client = {}) =>
        new OpenAI({ apiKey: client.key ?? key, baseURL: `${client.url ?? url}/v1`, maxRetries: client.retries ?? 0 }),
      async post(body, request = {}) {
        const response = await fetch(`${request.url ?? url}/v1/chat/completions`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${request.key ?? key}`,
            "content-type": "application/json",
            ...request.headers,
          },
          body: typeof body === "string" ? body : JSON.stringify(body),
          ...(request.signal && { signal: request.signal }),
        });
        if (request.signal) callersResponses.set(request.signal, response);
        return response;
      },
      seen: async (model) =>
        (await (await fetch(`${simulatorUrl}/_simulator/requests?model=${encodeURIComponent(model)}`)).json()) as never,
      async [Symbol.asyncDispose]() {
        for (const cleanup of cleanups.reverse()) await cleanup();
      },
    };
  } catch (error) {
    for (const cleanup of cleanups.reverse()) await cleanup().catch(() => undefined);
    throw error;
  }
}
