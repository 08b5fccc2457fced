/** Control inside the test process, on a database of the test's own. */
import { pino } from "pino";
import { Registry } from "prom-client";
import { watchCatalogue } from "#catalogue/watch.ts";
import { systemClock } from "#service/clock.ts";
import { serviceConfigOf } from "#service/config.ts";
import { connectRedis } from "#service/redis.ts";
import { controlConfigOf } from "../../apps/control/config.ts";
import { createControl } from "../../apps/control/control.ts";
import { type Role, startRole } from "./gateway.ts";
import { sharedPostgres } from "./postgres.ts";

export interface TestControl extends AsyncDisposable {
  /** Its address. */
  readonly url: string;
  /** The operations port's address. */
  readonly operations: string;
  /** An operator's token. */
  readonly token: string;
  /** Calls the API as an operator; `path` is below /api/v1. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** The answer of a GET. Throws for any other status than 200. */
  get<Answer>(path: string): Promise<Answer>;
}

const operatorToken = "operator-token-of-the-tests-0123456789";

/** The role alone: nothing but its environment. */
export async function openControl(
  environment: Record<string, string>,
): Promise<{ urls: { control: string; operations: string }; close(): Promise<void> }> {
  const config = { ...serviceConfigOf(environment), ...controlConfigOf(environment) };
  const control = await createControl(config, {
    log: pino({ level: process.env.TEST_LOGS ? "info" : "silent" }),
    registry: new Registry(),
    version: "test",
    clock: systemClock,
    connectRedis: (purpose) => connectRedis(config.redisUrl, purpose),
    environment,
    watchCatalogue: (listeners) => watchCatalogue(config.catalogueFile, environment, listeners),
  });
  return { urls: await control.listen(), close: () => control.close() };
}

/**
 * `environment` needs REDIS_URL and SLUICE_CATALOGUE; without a database it uses a new one on the
 * Postgres of this process.
 */
export async function startControl(environment: Record<string, string>): Promise<TestControl> {
  const hasDatabase = "DATABASE_URL" in environment || "DATABASE_DIRECTORY" in environment;
  const { urls, close } = await openControl({
    CONTROL_PORT: "0",
    ...(!hasDatabase && { DATABASE_URL: await (await sharedPostgres()).createTables() }),
    OPERATOR_TOKEN: operatorToken,
    ...environment,
  });
  return { ...callsOf(urls), [Symbol.asyncDispose]: close };
}

export interface ControlProcess extends TestControl {
  readonly role: Role;
}

/**
 * Control as a process, which can be killed. `environment` also names DATABASE_URL or
 * DATABASE_DIRECTORY.
 */
export async function startControlProcess(environment: Record<string, string>): Promise<ControlProcess> {
  const role = await startRole("control", [], { CONTROL_PORT: "0", OPERATOR_TOKEN: operatorToken, ...environment });
  return {
    ...callsOf(role.urls as { control: string; operations: string }),
    role,
    async [Symbol.asyncDispose]() {
      if (!role.hasEnded) await role.kill();
    },
  };
}

function callsOf(urls: { control: string; operations: string }): Omit<TestControl, typeof Symbol.asyncDispose> {
  const call: TestControl["call"] = (method, path, body, headers = {}) =>
    fetch(`${urls.control}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${operatorToken}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return {
    url: urls.control,
    token: operatorToken,
    operations: urls.operations,
    call,
    async get<Answer>(path: string) {
      const response = await call("GET", path);
      if (response.status !== 200) throw new Error(`GET ${path}: ${response.status} ${await response.text()}`);
      return (await response.json()) as Answer;
    },
  };
}
