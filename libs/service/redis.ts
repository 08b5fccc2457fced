/** Redis connections, one kind for each way of waiting. */
import { type RedisOptions as AllRedisOptions, Redis } from "ioredis";
import { StartupFault } from "./startup.ts";

/** A connection to Redis. */
export type { Redis };

type RedisOptions = Omit<AllRedisOptions, "replyMapping">;

/** How long a request to Redis may take before its outcome counts as unknown. */
const commandTimeoutMs = 1_500;

/**
 * How long a connection with a command on its way may bring nothing before it is replaced: a host that vanished says no goodbye.
 * Longer than any command of ours blocks.
 */
const silenceMs = 4_000;

/**
 * `request`: commands that a caller waits for; they fail at once while Redis is away, and are never sent twice.
 * `patient`: fetches and subscriptions; they wait for Redis to come back, and are sent again then, for without that ioredis would leave
 * those that were on their way unsettled for ever. A fetch that is executed twice leaves a job without a runner, which its owner finds.
 */
export type RedisPurpose = "request" | "patient";

/** What this process has open. */
const connections = new Set<Redis>();
/** They leave a demoted Redis no more often than this: its address may lead to it for a while. */
const leaveEveryMs = 1_000;
let leftAt = Number.NEGATIVE_INFINITY;

/**
 * A Redis that was made a replica refuses what writes, and may keep its connections. All of them leave it together: to publish and to subscribe works there
 * as well, but reaches nobody at the new primary. What was refused is not sent again; it may have been a part of a transaction.
 */
function leaveReplica({ message }: Error): boolean {
  if (!message.startsWith("READONLY") || performance.now() - leftAt < leaveEveryMs) return false;
  leftAt = performance.now();
  for (const connection of connections) connection.disconnect(true);
  return true;
}

const reconnectDelayMs = (attempt: number) => Math.min(25 * attempt, 250);

/** Options for a URL of the kinds `redis://`, `rediss://` (TLS) and `unix:///path/to/socket`; a bad one is a StartupFault. */
function redisOptionsOf(url: string, purpose: RedisPurpose): RedisOptions {
  const address = addressOf(url);
  const common: RedisOptions = {
    ...address,
    retryStrategy: reconnectDelayMs,
    reconnectOnError: leaveReplica,
    connectTimeout: 2_000,
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
  if (!/^\d{0,4}$/.test(database)) throw new StartupFault("REDIS_URL must end in a database number or in nothing");
  return {
    ...login,
    host: parsed.hostname || "127.0.0.1",
    port: Number(parsed.port || 6379),
    db: Number(database || 0),
    ...(parsed.protocol === "rediss:" && { tls: {} }),
  };
}

/** Where a connection goes, without its password: for logs and faults. */
export function redisAddressOf(url: string): string {
  const { path, host, port } = addressOf(url);
  return path ?? `${host}:${port}`;
}

/** A connection that is ready; a StartupFault in one line if there is none within two seconds. The caller closes it. */
export async function connectRedis(url: string, purpose: RedisPurpose): Promise<Redis> {
  const options: RedisOptions = redisOptionsOf(url, purpose);
  options.lazyConnect = true;
  options.retryStrategy = () => null;
  const redis = new Redis(options);
  let cause = "";
  redis.on("error", (error: Error) => {
    cause = error.message;
  });
  try {
    await redis.connect();
    redis.options.retryStrategy = reconnectDelayMs;
    connections.add(redis);
    redis.once("end", () => connections.delete(redis));
  } catch (error) {
    redis.disconnect();
    throw new StartupFault(`no Redis at ${redisAddressOf(url)}: ${cause || (error as Error).message}`);
  }
  return redis;
}

/** What part of its memory a Redis uses: of the most that it may use, or of its machine's where nothing bounds it. Rejects when it does not answer. */
export async function usedMemoryShare(redis: Redis): Promise<number> {
  const text = await redis.info("memory");
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(text)?.[1] ?? 0);
  const most = field("maxmemory") || field("total_system_memory");
  return most === 0 ? 0 : field("used_memory") / most;
}

/** Did Redis answer, and refuse? What it refuses says nothing of what else it would take. */
export const isRefusal = (error: unknown): boolean => error instanceof Error && error.name === "ReplyError";
