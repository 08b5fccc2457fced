/** REDIS_URL: one address or several, how to log in, and how TLS is checked. */
import { readFileSync } from "node:fs";
import { StartupFault } from "./startup.ts";

interface RedisAddress {
  host: string;
  port: number;
}

interface Login {
  username?: string;
  password?: string;
}

interface Tls {
  ca?: Buffer;
  cert?: Buffer;
  key?: Buffer;
  servername?: string;
}

export interface RedisUrl {
  /** One or more; empty with a Unix socket. */
  addresses: readonly RedisAddress[];
  /** The path of a Unix socket. */
  socket?: string;
  login: Login;
  /** For Sentinels; those of `login` if the URL has none. */
  sentinelLogin: Login;
  database: number;
  /** The primary's name at the Sentinels. */
  primaryName: string;
  tls?: Tls;
}

const form =
  "redis://[user:password@]host:port[,host:port…][/database or the primary's name], rediss://… for TLS, or unix:///path/to/socket";
const defaultPort = 6379;
const addressesMax = 64;
const defaultPrimaryName = "mymaster";
/** The query's parameters. Paths lead to PEM files. */
const parameters = ["ca", "cert", "key", "servername", "sentinelUsername", "sentinelPassword"] as const;

/**
 * Reads `redis://`, `rediss://` (TLS) and `unix://` URLs, with several addresses separated by
 * commas. The path is a database number or the name that Sentinels know the primary by. Throws a
 * StartupFault if it is not valid or a file can't be read. Faults never contain the URL, because it
 * may have a password.
 */
export function parseRedisUrl(url: string): RedisUrl {
  const [, scheme, user, hosts, path, query] =
    /^(redis|rediss|unix):\/\/(?:([^@/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(url) ?? [];
  if (scheme === undefined || hosts === undefined) throw new StartupFault(`REDIS_URL is not valid; use ${form}`);
  const login = loginOf(user);
  const values = parametersOf(query ?? "");
  const sentinelLogin = {
    ...(values.sentinelUsername !== undefined && { username: values.sentinelUsername }),
    ...(values.sentinelPassword !== undefined && { password: values.sentinelPassword }),
  };
  const common = {
    login,
    sentinelLogin: values.sentinelPassword === undefined ? login : sentinelLogin,
    database: 0,
    primaryName: defaultPrimaryName,
  };
  if (scheme === "unix") {
    if (hosts !== "" || !path) throw new StartupFault("REDIS_URL has no path of a socket; use unix:///path/to/socket");
    return { ...common, addresses: [], socket: `/${decoded(path)}` };
  }
  const addresses = hosts.split(",").map(addressOf);
  if (addresses.length > addressesMax) throw new StartupFault(`REDIS_URL has more than ${addressesMax} addresses`);
  const name = decoded(path ?? "");
  const isNumber = /^\d{0,4}$/.test(name);
  if (!isNumber && !/^[\w.-]{1,100}$/.test(name))
    throw new StartupFault(
      "the path of REDIS_URL must be a database number, or the name that Sentinels know the primary by",
    );
  return {
    ...common,
    addresses,
    ...(isNumber ? { database: Number(name) } : { primaryName: name }),
    ...(scheme === "rediss" && { tls: tlsOf(values) }),
  };
}

/** The addresses in a Redis URL without its passwords, for logs and errors. */
export function redisAddressOf(url: string): string {
  const { socket, addresses } = parseRedisUrl(url);
  return socket ?? addresses.map(({ host, port }) => `${host}:${port}`).join(",");
}

function addressOf(text: string): RedisAddress {
  const [, v6, name, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (v6 === undefined && name === undefined) throw new StartupFault(`REDIS_URL has an invalid address; use ${form}`);
  const number = port === undefined ? defaultPort : Number(port);
  if (number < 1 || number > 65_535) throw new StartupFault("REDIS_URL has a port that is not from 1 to 65535");
  return { host: v6 ?? (name || "127.0.0.1"), port: number };
}

function loginOf(user: string | undefined): Login {
  if (user === undefined) return {};
  const [username = "", ...rest] = user.split(":");
  return {
    ...(username && { username: decoded(username) }),
    ...(rest.length > 0 && rest.join(":") !== "" && { password: decoded(rest.join(":")) }),
  };
}

function parametersOf(query: string): Partial<Record<(typeof parameters)[number], string>> {
  const search = new URLSearchParams(query);
  for (const name of search.keys())
    if (!parameters.some((parameter) => parameter === name))
      throw new StartupFault(`REDIS_URL has an unknown parameter; known are ${parameters.join(", ")}`);
  return Object.fromEntries(search);
}

function tlsOf({ ca, cert, key, servername }: ReturnType<typeof parametersOf>): Tls {
  return {
    ...(ca !== undefined && { ca: read(ca, "ca") }),
    ...(cert !== undefined && { cert: read(cert, "cert") }),
    ...(key !== undefined && { key: read(key, "key") }),
    ...(servername !== undefined && { servername }),
  };
}

function read(path: string, parameter: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new StartupFault(`the file of REDIS_URL's parameter ${parameter} can't be read: ${(error as Error).message}`);
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new StartupFault("REDIS_URL has a % that does not begin an encoded byte; write %25");
  }
}
