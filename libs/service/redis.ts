/** Redis connections for requests and for patient waits. */
import { type RedisOptions as AllRedisOptions, Redis } from "ioredis";
import {
  commandTimeoutMs,
  connectTimeoutMs,
  disconnectTimeoutMs,
  firstConnectTimeoutMs,
  leaveEveryMs,
  silenceMs,
} from "./bounds.ts";
import { StartupFault } from "./startup.ts";

/** A connection to Redis. */
export type { Redis };

type RedisOptions = Omit<AllRedisOptions, "replyMapping">;

/**
 * `request`: commands that a caller waits for. They fail at once while Redis is unavailable, and are never sent twice.
 * `patient`: fetches and subscriptions. They wait until Redis is available and are then sent again, because ioredis would otherwise never settle
 * the pending ones. A fetch that runs twice leaves a job without a runner, which its owner detects.
 */
export type RedisPurpose = "request" | "patient";

/** The open connections of this process. */
const connections = new Set<Redis>();
let leftAt = Number.NEGATIVE_INFINITY;

/**
 * A Redis that becomes a replica refuses writes, and may keep its connections open. All connections reconnect together, because publish and subscribe still
 * succeed at a replica, but do not reach the new primary. Refused commands are not sent again; they may be part of a transaction.
 */
function leaveReplica({ message }: Error): boolean {
  if (!message.startsWith("READONLY") || performance.now() - leftAt < leaveEveryMs) return false;
  leftAt = performance.now();
  for (const connection of connections) connection.disconnect(true);
  return true;
}

const reconnectDelayMs = (attempt: number) => Math.min(25 * attempt, 250);

/** Options for a URL: `redis://`, `rediss://` (TLS) or `unix:///path/to/socket`. An invalid URL is a StartupFault. */
function redisOptionsOf(url: string, purpose: RedisPurpose): RedisOptions {
  const address = addressOf(url);
  const common: RedisOptions = {
    ...address,
    retryStrategy: reconnectDelayMs,
    reconnectOnError: leaveReplica,
    connectTimeout: connectTimeoutMs,
    disconnectTimeout: disconnectTimeoutMs,
    socketTimeout: silenceMs,
  };
  if (purpose === "patient") return { ...common, maxRetriesPerRequest: null };
  return {
    ...common,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    commandTimeout: commandTimeoutMs,
  };
}

function addressOf(url: string): RedisOptions {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new StartupFault(
      "REDIS_URL is not a URL; use redis://host:port, rediss://host:port or unix:///path/to/socket",
    );
  }
  const login: RedisOptions = {
    ...(parsed.username && { username: decodeURIComponent(parsed.username) }),
    ...(parsed.password && { password: decodeURIComponent(parsed.password) }),
  };
  if (parsed.protocol === "unix:") return { ...login, path: decodeURIComponent(parsed.pathname) };
  if (parsed.protocol !== "redis:" && parsed.protocol !== "rediss:")
    throw new StartupFault(`REDIS_URL has the scheme "${parsed.protocol}"; use redis:, rediss: or unix:`);
  const database = parsed.pathname.slice(1);
  if (!/^\d{0,4}$/.test(database)) throw new StartupFault("the path of REDIS_URL must be a database number or empty");
  return {
    ...login,
    host: parsed.hostname || "127.0.0.1",
    port: Number(parsed.port || 6379),
    db: Number(database || 0),
    ...(parsed.protocol === "rediss:" && { tls: {} }),
  };
}

/** The address in a Redis URL without its password, for logs and errors. */
export function redisAddressOf(url: string): string {
  const { path, host, port } = addressOf(url);
  return path ?? `${host}:${port}`;
}

/** Resolves to a connection that is ready, or rejects with a StartupFault after ten seconds. The caller closes it. */
export async function connectRedis(url: string, purpose: RedisPurpose): Promise<Redis> {
  const options: RedisOptions = redisOptionsOf(url, purpose);
  options.lazyConnect = true;
  options.retryStrategy = () => null;
  options.connectTimeout = firstConnectTimeoutMs;
  const redis = new Redis(options);
  let cause = "";
  redis.on("error", (error: Error) => {
    cause = error.message;
  });
  try {
    await redis.connect();
    redis.options.retryStrategy = reconnectDelayMs;
    redis.options.connectTimeout = connectTimeoutMs;
    connections.add(redis);
    redis.once("end", () => connections.delete(redis));
  } catch (error) {
    redis.disconnect();
    throw new StartupFault(`no Redis at ${redisAddressOf(url)}: ${cause || (error as Error).message}`);
  }
  return redis;
}

/** Calls `use` with a connection for requests, and closes the connection afterwards. */
export async function withRedis<Result>(url: string, use: (redis: Redis) => Promise<Result>): Promise<Result> {
  const redis = await connectRedis(url, "request");
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

/** The used share of Redis' `maxmemory`, or of its machine's memory when it has no such limit. Rejects when Redis does not answer. */
export async function usedMemoryShare(redis: Redis): Promise<number> {
  const text = await redis.info("memory");
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(text)?.[1] ?? 0);
  const most = field("maxmemory") || field("total_system_memory");
  return most === 0 ? 0 : field("used_memory") / most;
}

/** Whether Redis answered with an error. Other commands may still succeed. */
export const isRefusal = (error: unknown): boolean => error instanceof Error && error.name === "ReplyError";
