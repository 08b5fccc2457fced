/**
 * Settings from the environment: tables with bounds and defaults, read once at start.
 * docs/reference.md is generated from the same tables. An invalid value is a StartupFault that
 * names its variable. An empty value counts as unset.
 */
import { totalmem } from "node:os";
import { isNetwork } from "./networks.ts";
import { StartupFault } from "./startup.ts";

const mebibyte = 1 << 20;

type Environment = Record<string, string | undefined>;

export interface Setting<Value> {
  variable: string;
  description: string;
  /** The default and the bounds as text. */
  default: string;
  bounds: string;
  /** The variable's name before version 0.2.0. */
  formerVariable?: string;
  /**
   * Only for secrets, which are never shown and may be in a file (secret-files.ts): when a changed
   * file is in force.
   */
  secret?: "rotates" | "needs a restart";
  read(environment: Environment): Value;
}

export type Settings = Record<string, Setting<unknown>>;

type SettingsOf<Table> = { [Name in keyof Table]: Table[Name] extends Setting<infer Value> ? Value : never };

/**
 * Reads every setting of a table. Throws StartupFault for an invalid value, and for a variable
 * under its former name.
 */
export function readSettings<Table extends Settings>(table: Table, environment: Environment): SettingsOf<Table> {
  return Object.fromEntries(
    Object.entries(table).map(([name, setting]) => {
      const { variable, formerVariable } = setting;
      if (formerVariable !== undefined && environment[formerVariable])
        throw new StartupFault(`${formerVariable} was renamed to ${variable} in version 0.2.0`);
      return [name, setting.read(environment)];
    }),
  ) as SettingsOf<Table>;
}

/** A default that depends on the machine, and its description. */
interface Derived {
  value: number;
  text: string;
}

/**
 * Bytes, in whole MiB: `1/part` of the memory that the machine or its container allows this
 * process.
 */
export function memoryShare(part: number, bytesMax: number): Derived {
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const value = Math.min(bytesMax, Math.max(1, Math.floor(memory / part / mebibyte)) * mebibyte);
  return { value, text: `1/${part} of the memory, at most ${bytesMax}` };
}

/** An integer in [min, max]. */
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
      const text = environment[variable];
      if (text === undefined || text === "") return fallback;
      const value = Number(text);
      if (!/^\d+$/.test(text) || value < min || value > max)
        throw new StartupFault(`${variable} must be an integer from ${min} to ${max}, not "${text}"`);
      return value;
    },
  };
}

/** A text; `form` describes what `pattern` allows. */
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

/** Whether an address has a user name or a password. */
export const hasCredentials = ({ username, password }: URL): boolean => username !== "" || password !== "";

/** In addresses, people and logs see them, and clients leave them out or fail. */
export const noCredentials = "without a user name and password";

/** Addresses that match a pattern, and have no credentials. */
export const plainAddress = (pattern: RegExp): Pick<RegExp, "test"> => ({
  test: (text) => pattern.test(text) && URL.canParse(text) && !hasCredentials(new URL(text)),
});

/** An address, or none; a fault does not show it. */
export function addressSetting(variable: string, description: string, form: string, pattern: RegExp): Setting<string> {
  const bounds = `${form}, ${noCredentials}`;
  const { read } = secretSetting(variable, description, { form: bounds, pattern: plainAddress(pattern) });
  return { variable, description, default: "", bounds, read: (environment) => read(environment) ?? "" };
}

interface SecretForm {
  /** Describes what `pattern` allows. */
  form: string;
  pattern: Pick<RegExp, "test">;
}

/** Secrets that operators make up, which must not be guessed. */
const madeUp = (charactersMin: number, characters: string, kind: string): SecretForm => ({
  form: `${charactersMin} to 512 ${kind}`,
  pattern: new RegExp(`^${characters}{${charactersMin},512}$`, "u"),
});
export const madeUpSecret = madeUp(32, "\\P{Cc}", "characters");
/** In a header. */
export const madeUpToken = madeUp(32, "[!-~]", "visible ASCII characters");
/** People type it. */
export const madeUpPassword = madeUp(16, "\\P{Cc}", "characters");

/** A text that is never shown, nor part of a fault; undefined when unset. */
export function secretSetting(
  variable: string,
  description: string,
  { form = "a secret", pattern = /^/, rotates = false }: Partial<SecretForm> & { rotates?: boolean } = {},
): Setting<string | undefined> {
  return {
    variable,
    description,
    default: "",
    bounds: form,
    secret: rotates ? "rotates" : "needs a restart",
    read(environment) {
      const value = environment[variable] || undefined;
      if (value !== undefined && !pattern.test(value))
        throw new StartupFault(`${variable} must be ${form}; its value is not shown`);
      return value;
    },
  };
}

/** The same for a secret that rotates: a function reads it from the environment. */
export function rotatingSecret(
  variable: string,
  description: string,
  form: SecretForm,
): Setting<() => string | undefined> {
  const setting = secretSetting(variable, description, { ...form, rotates: true });
  return {
    ...setting,
    read(environment) {
      setting.read(environment);
      return () => environment[variable] || undefined;
    },
  };
}

const levels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

const redisUrl = secretSetting(
  "REDIS_URL",
  "Redis 7 or Valkey 8, or newer: a server, Sentinels or a cluster (docs/redis.md). `npm start` starts a private Redis when this is unset.",
  {
    form: "redis:// or rediss:// and addresses, or unix:// and a path",
    pattern: /^(redis|rediss|unix):\/\//,
  },
);
const redisUrlDefault = "redis://127.0.0.1:6379";

/** The settings of every process. */
export const serviceSettings = {
  redisUrl: {
    ...redisUrl,
    default: redisUrlDefault,
    read: (environment) => redisUrl.read(environment) ?? redisUrlDefault,
  } satisfies Setting<string> as Setting<string>,
  namespace: textSetting(
    "SLUICE_NAMESPACE",
    "sluice",
    "Separates gateways that share a Redis: a part of every key and channel, because pub/sub ignores database numbers.",
    "1 to 40 of a-z, 0-9 and -",
    /^[a-z0-9-]{1,40}$/,
  ),
  catalogueFile: textSetting("SLUICE_CATALOGUE", "catalogue.yaml", "The catalogue file.", "a path"),
  operationsHost: textSetting(
    "OPERATIONS_HOST",
    "127.0.0.1",
    "The address of the operations port.",
    "a host name or address",
  ),
  operationsPort: integerSetting(
    "OPERATIONS_PORT",
    0,
    0,
    65_535,
    "The port of /healthz, /readyz and /metrics; 0 uses any free port.",
  ),
  usageDirectory: textSetting(
    "USAGE_DIRECTORY",
    ".sluice/usage",
    "Where ingresses and workers keep usage records while Redis cannot take them. A volume that outlives the container, for a ledger without gaps.",
    "a path",
  ),
  logLevel: textSetting(
    "LOG_LEVEL",
    "info",
    "The lowest level that is logged.",
    levels.join(", "),
    new RegExp(`^(${levels.join("|")})$`),
  ),
};

export type ServiceConfig = SettingsOf<typeof serviceSettings>;

export const serviceConfigOf = (environment: Environment): ServiceConfig => readSettings(serviceSettings, environment);

/** The address of an ingress for callers. */
export const listenSettings = {
  host: textSetting("HOST", "127.0.0.1", "The address that listens for callers.", "a host name or address"),
  port: integerSetting("PORT", 8080, 0, 65_535, "The port for callers; 0 uses any free port."),
};

/** Proxies in front of the servers that people and callers reach. */
export const proxySettings = {
  trustedProxies: {
    variable: "TRUSTED_PROXIES",
    description:
      "The addresses of proxies whose X-Forwarded-For names the caller's address, such as 10.0.0.0/8,fd00::/8. Without it, the address of the connection counts.",
    default: "",
    bounds: "addresses and networks in CIDR notation, separated by commas",
    read(environment) {
      const networks = (environment.TRUSTED_PROXIES ?? "")
        .split(",")
        .map((network) => network.trim())
        .filter((network) => network !== "");
      const wrong = networks.find((network) => !isNetwork(network));
      if (wrong !== undefined)
        throw new StartupFault(`TRUSTED_PROXIES must be ${this.bounds}, not "${environment.TRUSTED_PROXIES}"`);
      return networks;
    },
  } satisfies Setting<string[]> as Setting<string[]>,
};

/** Graceful shutdown of ingresses and workers after SIGTERM. */
export const drainSettings = {
  drainNoticeMs: integerSetting(
    "DRAIN_NOTICE_MS",
    0,
    0,
    600_000,
    "How long a stopping ingress still serves requests while it reports that it is not ready, so that a load balancer notices.",
  ),
  drainMs: integerSetting(
    "DRAIN_MS",
    30_000,
    0,
    3_600_000,
    "How long running generations may take to finish after that.",
  ),
};
