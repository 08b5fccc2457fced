/** Settings from the environment, each checked once at start; a bad one is a StartupFault that names it. */
import { StartupFault } from "./startup.ts";

type Environment = Record<string, string | undefined>;

/** An integer within [min, max]; `otherwise` when the variable is unset or empty. */
export function integerOf(environment: Environment, name: string, otherwise: number, min: number, max: number): number {
  const text = environment[name];
  if (text === undefined || text === "") return otherwise;
  const value = Number(text);
  if (!Number.isInteger(value) || value < min || value > max) throw new StartupFault(`${name} must be an integer from ${min} to ${max}, not "${text}"`);
  return value;
}

export interface ServiceConfig {
  redisUrl: string;
  /** Separates deployments that share a Redis: it is part of every key and channel, for pub/sub ignores database numbers. */
  namespace: string;
  catalogueFile: string;
  operationsHost: string;
  /** 0 takes any free port. */
  operationsPort: number;
}

/** What every process of the service is told, with the same names everywhere. */
export function serviceConfigOf(environment: Environment): ServiceConfig {
  const namespace = environment.SLUICE_NAMESPACE || "sluice";
  if (!/^[a-z0-9-]{1,40}$/.test(namespace)) throw new StartupFault(`SLUICE_NAMESPACE must be 1 to 40 of a-z, 0-9 and -, not "${namespace}"`);
  return {
    redisUrl: environment.REDIS_URL || "redis://127.0.0.1:6379",
    namespace,
    catalogueFile: environment.SLUICE_CATALOGUE || "catalogue.yaml",
    operationsHost: environment.OPERATIONS_HOST || "127.0.0.1",
    operationsPort: integerOf(environment, "OPERATIONS_PORT", 0, 0, 65_535),
  };
}
