/**
 * The roles of a gateway inside the test process: the same composition as the processes', from an
 * environment of their own.
 */
import { pino } from "pino";
import { Registry } from "prom-client";
import { watchCatalogue } from "#catalogue/watch.ts";
import { relayBounds } from "#relay/bounds.ts";
import { type Clock, systemClock } from "#service/clock.ts";
import { readSettings, serviceConfigOf } from "#service/config.ts";
import type { Protocols } from "#service/protocol.ts";
import { connectRedis } from "#service/redis.ts";
import { SecretFiles } from "#service/secret-files.ts";
import { openTracing } from "#tracing/tracing.ts";
import { ingressConfigOf } from "../../apps/ingress/common/config.ts";
import { createIngress } from "../../apps/ingress/ingress.ts";
import { simulatorSettings } from "../../apps/simulator/config.ts";
import { createSimulator } from "../../apps/simulator/server.ts";
import { settingValuesIn } from "../../apps/simulator/settings.ts";
import { loadWorkerConfig } from "../../apps/worker/config.ts";
import { workerRedisOf } from "../../apps/worker/redis.ts";
import { createAuthorization } from "../../apps/worker/upstream/authorization.ts";
import { Upstreams } from "../../apps/worker/upstream/upstreams.ts";
import { createWorker } from "../../apps/worker/worker.ts";

type Environment = Record<string, string>;

export interface Started {
  urls: Record<string, string>;
  /** Drains, then closes. */
  stop(): Promise<void>;
  /** Closes without draining. */
  close(): Promise<void>;
}

const log = pino({ level: process.env.TEST_LOGS ? "info" : "silent" });
const simulatorGraceMs = 10_000;

export interface RoleOptions {
  clock?: Clock;
  /** The protocols of another release. */
  protocols?: Protocols;
}

export async function startIngress(
  env: Environment,
  { clock = systemClock, protocols }: RoleOptions = {},
): Promise<Started> {
  const config = { ...serviceConfigOf(env), ...ingressConfigOf(env) };
  const ingress = await createIngress(config, {
    log,
    tracing: await openTracing("ingress", env, log),
    clock,
    bounds: relayBounds,
    registry: new Registry(),
    report: () => {},
    connectRedis: (purpose) => connectRedis(config.redisUrl, purpose),
    watchCatalogue: (listeners) => watchCatalogue(config.catalogueFile, env, listeners),
    ...(protocols && { protocols }),
  });
  const urls = await ingress.listen();
  return { urls, stop: () => ingress.drain().then(ingress.close), close: () => ingress.close() };
}

export async function startWorker(
  env: Environment,
  args: string[],
  { clock = systemClock, protocols }: RoleOptions = {},
): Promise<Started> {
  const secrets = new SecretFiles(env);
  const config = loadWorkerConfig(env, args);
  const worker = await createWorker(config, {
    log,
    tracing: await openTracing("worker", env, log),
    clock,
    bounds: relayBounds,
    registry: new Registry(),
    redis: workerRedisOf(config, protocols),
    secrets,
    upstreams: new Upstreams(createAuthorization(secrets.environment), env),
    watchCatalogue: (listeners) => watchCatalogue(config.catalogueFile, env, listeners),
  });
  const urls = await worker.start();
  return { urls, stop: () => worker.drain().then(() => worker.close()), close: () => worker.close() };
}

export async function startSimulator(env: Environment): Promise<Started> {
  const { host, key, defaultsText } = readSettings(simulatorSettings, env);
  const defaults = settingValuesIn(defaultsText);
  if (defaults.kind === "bad") throw new Error(`SIMULATOR_DEFAULTS: ${defaults.fault}`);
  const simulator = createSimulator({ host, port: 0, defaults: defaults.value, ...(key && { key }) });
  const url = await simulator.listen();
  return { urls: { simulator: url }, stop: () => simulator.close(simulatorGraceMs), close: () => simulator.close(0) };
}
