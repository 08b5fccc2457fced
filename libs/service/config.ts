/**
 * Settings from the environment: tables of what there is, each with its bounds and its default, read once at start. The reference page
 * (docs/reference.md) is made from the same tables. A bad value is a StartupFault that names its variable; an empty one counts as unset.
 */
import { totalmem } from "node:os";
import { StartupFault } from "./startup.ts";

const mebibyte = 1 << 20;

type Environment = Record<string, string | undefined>;

export interface Setting<Value> {
  variable: string;
  description: string;
  /** The default and the bounds, for people. */
  default: string;
  bounds: string;
  /** The name of its variable before version 0.2.0. */
  formerVariable?: string;
  read(environment: Environment): Value;
}

type SettingsOf<Table> = { [Name in keyof Table]: Table[Name] extends Setting<infer Value> ? Value : never };

/** Reads all of a table. Throws StartupFault for a bad value, and for a variable that is set under its former name. */
export function readSettings<Table extends Record<string, Setting<unknown>>>(
  table: Table,
  environment: Environment,
): SettingsOf<Table> {
  return Object.fromEntries(
    Object.entries(table).map(([name, setting]) => {
      const { variable, formerVariable } = setting;
      if (formerVariable !== undefined && environment[formerVariable])
        throw new StartupFault(`${formerVariable} was renamed to ${variable} in version 0.2.0`);
      return [name, setting.read(environment)];
    }),
  ) as SettingsOf<Table>;
}

/** A default that depends on the machine, and what of it people are told. */
interface Derived {
  value: number;
  text: string;
}

/** Bytes: a part of the memory that this process may use, the machine's or its container's, in whole MiB. */
export function memoryShare(part: number, bytesMax: number): Derived {
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const value = Math.min(bytesMax, Math.max(1, Math.floor(memory / part / mebibyte)) * mebibyte);
  return { value, text: `1/${part} of the memory, ${bytesMax} at most` };
}

/** An integer within [min, max]. */
export function integerSetting(
  variable: string,
  standard: number | Derived,
  min: number,
  max: number,
  description: string,
): Setting<number> {
  const { value: fallback, text } =
    typeof standard === "number" ? { value: standard, text: String(standard) } : standard;
  return {
    variable,
    description,
    default: text,
    bounds: `${min} to ${max}`,
    read(environment) {
      const given = environment[variable];
      if (given === undefined || given === "") return fallback;
      const value = Number(given);
      if (!/^\d+$/.test(given) || value < min || value > max)
        throw new StartupFault(`${variable} must be an integer from ${min} to ${max}, not "${given}"`);
      return value;
    },
  };
}

/** A text of the given form; `form` says in words what `pattern` allows. */
export function textSetting(
  variable: string,
  standard: string,
  description: string,
  form = "any text",
  pattern = /^/,
): Setting<string> {
  return {
    variable,
    description,
    default: standard,
    bounds: form,
    read(environment) {
      const text = environment[variable] || standard;
      if (!pattern.test(text)) throw new StartupFault(`${variable} must be ${form}, not "${text}"`);
      return text;
    },
  };
}

/** A text that is never shown; undefined when it is unset. */
export function secretSetting(variable: string, description: string): Setting<string | undefined> {
  return {
    variable,
    description,
    default: "",
    bounds: "a secret",
    read: (environment) => environment[variable] || undefined,
  };
}

const levels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

/** What every process of the service is told, with the same names everywhere. */
export const serviceSettings = {
  redisUrl: textSetting(
    "REDIS_URL",
    "redis://127.0.0.1:6379",
    "Redis 7 or Valkey 8, or newer. `npm start` runs a private one when this is unset.",
    "redis://, rediss:// or unix:// and an address",
    /^(redis|rediss|unix):\/\//,
  ),
  namespace: textSetting(
    "SLUICE_NAMESPACE",
    "sluice",
    "Separates gateways that share a Redis: a part of every key and channel, for pub/sub ignores database numbers.",
    "1 to 40 of a-z, 0-9 and -",
    /^[a-z0-9-]{1,40}$/,
  ),
  catalogueFile: textSetting("SLUICE_CATALOGUE", "catalogue.yaml", "The catalogue's file.", "a path"),
  operationsHost: textSetting(
    "OPERATIONS_HOST",
    "127.0.0.1",
    "Where the operations port listens.",
    "a host name or address",
  ),
  operationsPort: integerSetting(
    "OPERATIONS_PORT",
    0,
    0,
    65_535,
    "The port of /healthz, /readyz and /metrics; 0 takes any free one.",
  ),
  logLevel: textSetting(
    "LOG_LEVEL",
    "info",
    "How much is logged.",
    levels.join(", "),
    new RegExp(`^(${levels.join("|")})$`),
  ),
};

export type ServiceConfig = SettingsOf<typeof serviceSettings>;

export const serviceConfigOf = (environment: Environment): ServiceConfig => readSettings(serviceSettings, environment);

/** Where callers reach an ingress. */
export const listenSettings = {
  host: textSetting("HOST", "127.0.0.1", "Where callers are listened for.", "a host name or address"),
  port: integerSetting("PORT", 8080, 0, 65_535, "The port for callers; 0 takes any free one."),
};

/** How ingresses and workers stop after SIGTERM. */
export const drainSettings = {
  drainNoticeMs: integerSetting(
    "DRAIN_NOTICE_MS",
    0,
    0,
    600_000,
    "How long a stopping ingress goes on serving while it says that it is not ready, so that a load balancer sees it.",
  ),
  drainMs: integerSetting(
    "DRAIN_MS",
    30_000,
    0,
    3_600_000,
    "How long what is under way may take to finish, after that.",
  ),
};
