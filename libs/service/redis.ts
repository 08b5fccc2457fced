/**
 * Connections to Redis for requests and for patient waits: to one server, to the primary that
 * Sentinels name, or to a cluster. The first server that answers says which of them it is.
 */

import {
  Cluster,
  type ClusterOptions,
  type RedisCommander,
  type RedisOptions,
  SentinelConnector,
  Redis as Single,
} from "ioredis";
import {
  commandTimeoutMs,
  connectTimeoutMs,
  disconnectTimeoutMs,
  firstConnectTimeoutMs,
  leaveEveryMs,
  silenceMs,
  slotsRefreshEveryMs,
} from "./bounds.ts";
import { systemClock } from "./clock.ts";
import { parseRedisUrl, type RedisUrl, redisAddressOf } from "./redis-url.ts";
import { StartupFault } from "./startup.ts";
import "./young-commands.ts";

/**
 * A connection to Redis; with a cluster, one to each of its primaries in use. All keys of a script,
 * a pipeline or a transaction must have the same hash tag.
 */
export interface Redis
  extends RedisCommander<{ type: "default"; mapping: "resp2" }>,
    Pick<Single, "pipeline" | "multi"> {
  /**
   * "ready" also while a primary of a cluster is away: whether a command works is known by trying.
   */
  readonly status: string;
  on(event: string, listener: Listener): this;
  once(event: string, listener: Listener): this;
  off(event: string, listener: Listener): this;
  listenerCount(event: string): number;
  /** `reconnect`: opens it again at once. */
  disconnect(reconnect?: boolean): void;
}

// biome-ignore lint/suspicious/noExplicitAny: the arguments depend on the event
type Listener = (...values: any[]) => void;

/**
 * `request`: commands that a caller waits for. They fail at once while Redis is unavailable, and
 * are never sent twice. `patient`: fetches. They wait until Redis is available and are then sent
 * again, because ioredis would otherwise never settle the pending ones. A fetch that runs twice
 * leaves a job without a runner, which its owner detects. `subscribe`: like `patient`, for
 * subscriptions.
 */
export type RedisPurpose = "request" | "patient" | "subscribe";

/** The open connections of this process to single servers and to primaries of Sentinels. */
const connections = new Set<Single>();
let leftAt = Number.NEGATIVE_INFINITY;

/**
 * A Redis that becomes a replica refuses writes, and may keep its connections open. All connections
 * reconnect together, because publish and subscribe still succeed at a replica, but do not reach
 * the new primary. Refused commands are not sent again; they may be part of a transaction. A
 * cluster's replica redirects.
 */
function leaveReplica({ message }: Error): boolean {
  if (!message.startsWith("READONLY") || systemClock.now() - leftAt < leaveEveryMs) return false;
  leftAt = systemClock.now();
  for (const connection of connections) connection.disconnect(true);
  return true;
}

const reconnectDelayMs = (attempt: number) => Math.min(25 * attempt, 250);
const never = () => null;

type CommonOptions = Omit<RedisOptions, "replyMapping">;

/** Options of every connection to a server, also of those inside a cluster's. */
function optionsOf({ login, tls }: RedisUrl, purpose: RedisPurpose): CommonOptions {
  return {
    ...login,
    ...(tls !== undefined && { tls }),
    connectTimeout: connectTimeoutMs,
    disconnectTimeout: disconnectTimeoutMs,
    socketTimeout: silenceMs,
    ...(purpose === "request"
      ? { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, commandTimeout: commandTimeoutMs }
      : { maxRetriesPerRequest: null }),
  };
}

/**
 * Asks the Sentinels for the primary each time it connects. Their announcements meanwhile, to the
 * previous connection, must not matter: ioredis would take it for a disconnect by the owner, and
 * never connect again.
 */
class PrimaryConnector extends SentinelConnector {
  override connect(...args: Parameters<SentinelConnector["connect"]>): ReturnType<SentinelConnector["connect"]> {
    // biome-ignore lint/complexity/useLiteralKeys: the field is private
    this["failoverDetector"]?.cleanup();
    return super.connect(...args);
  }
}

/**
 * ioredis takes up subscriptions again by itself after each reconnect, and nobody handles that such
 * a command fails because the connection is closed meanwhile.
 */
function withHandledSubscriptions(redis: Single): Single {
  for (const name of ["subscribe", "psubscribe", "ssubscribe"] as const) {
    const subscribe = redis[name];
    redis[name] = (...values: unknown[]) => {
      const subscribed: Promise<unknown> = Reflect.apply(subscribe, redis, values);
      subscribed.catch(() => {});
      return subscribed;
    };
  }
  return redis;
}

const silenceChecks = 4;

/**
 * Breaks a connection that stays silent for `socketTimeout` while commands wait. ioredis would take
 * a timer and a listener for each exchange; this takes a timer for many.
 */
function withOneSilenceTimer(redis: Single): Single {
  // biome-ignore lint/complexity/useLiteralKeys: the method is private
  redis["setSocketTimeout"] = () => {
    const { stream } = redis;
    let bytesRead = stream.bytesRead;
    let silentChecks = 0;
    const check = () => {
      // biome-ignore lint/complexity/useLiteralKeys: the field is private
      redis["socketTimeoutTimer"] = undefined;
      if (redis.commandQueue.length === 0) return;
      silentChecks = stream.bytesRead === bytesRead ? silentChecks + 1 : 0;
      bytesRead = stream.bytesRead;
      if (silentChecks > silenceChecks) stream.destroy(new Error("Redis does not answer"));
      else checkLater();
    };
    const checkLater = () => {
      // biome-ignore lint/complexity/useLiteralKeys: the field is private
      redis["socketTimeoutTimer"] = setTimeout(check, (redis.options.socketTimeout as number) / silenceChecks).unref();
    };
    checkLater();
  };
  return redis;
}

function openSingle(url: RedisUrl, purpose: RedisPurpose, isBehindSentinels: boolean): Single {
  const { addresses, socket, database, sentinelLogin, primaryName, tls } = url;
  const options: CommonOptions = {
    ...optionsOf(url, purpose),
    db: database,
    lazyConnect: true,
    retryStrategy: reconnectDelayMs,
    reconnectOnError: leaveReplica,
    ...(purpose === "request" && { enableOfflineQueue: false }),
  };
  if (!isBehindSentinels)
    return new Single({ ...options, ...(socket === undefined ? addresses[0] : { path: socket }) });
  return new Single({
    ...options,
    sentinels: [...addresses],
    name: primaryName,
    sentinelRetryStrategy: reconnectDelayMs,
    sentinelCommandTimeout: commandTimeoutMs,
    // A primary whose host vanished closes no connection; the Sentinels say when it was replaced.
    failoverDetector: true,
    Connector: PrimaryConnector as NonNullable<RedisOptions["Connector"]>,
    ...(sentinelLogin.username !== undefined && { sentinelUsername: sentinelLogin.username }),
    ...(sentinelLogin.password !== undefined && { sentinelPassword: sentinelLogin.password }),
    ...(tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  });
}

function openCluster(url: RedisUrl, purpose: RedisPurpose): Cluster {
  const options: Omit<ClusterOptions, "redisOptions"> & { redisOptions: CommonOptions } = {
    lazyConnect: true,
    redisOptions: optionsOf(url, purpose),
    clusterRetryStrategy: reconnectDelayMs,
    // Nothing else notices that a primary's host vanished.
    slotsRefreshInterval: slotsRefreshEveryMs,
    // With TLS, names of hosts are kept for the check of certificates.
    ...(url.tls !== undefined && { dnsLookup: (host, callback) => callback(null, host) }),
    ...(purpose === "request" && { enableOfflineQueue: false, retryDelayOnFailover: 0, retryDelayOnClusterDown: 0 }),
    ...(purpose === "subscribe" && { shardedSubscribers: true }),
  };
  return new Cluster([...url.addresses], options);
}

type Kind = "standalone" | "sentinel" | "cluster";

/** The kind of server at each URL. It does not change while a process runs. */
const kinds = new Map<string, Kind>();

/**
 * Asks the servers of the URL in turn what they are. Rejects with the last error if none answers.
 */
async function kindOf(url: string, parsed: RedisUrl): Promise<Kind> {
  const kind = kinds.get(url);
  if (kind !== undefined) return kind;
  const { addresses, socket, login, sentinelLogin, tls } = parsed;
  let fault = new Error("no address");
  for (const address of socket === undefined ? addresses : [{ path: socket }])
    for (const credentials of [{}, login, sentinelLogin]) {
      const server = new Single({
        ...address,
        ...credentials,
        ...(tls !== undefined && { tls }),
        lazyConnect: true,
        enableReadyCheck: false,
        connectTimeout: firstConnectTimeoutMs,
        commandTimeout: firstConnectTimeoutMs,
        maxRetriesPerRequest: 0,
        retryStrategy: never,
        disableClientInfo: true,
      });
      server.on("error", (error: Error) => {
        fault = error;
      });
      try {
        await server.connect();
        const mode = /^(?:redis|server)_mode:(\w+)/m.exec(await server.info("server"))?.[1];
        const kind = mode === "cluster" || mode === "sentinel" ? mode : "standalone";
        kinds.set(url, kind);
        return kind;
      } catch (error) {
        if ((error as Error).name === "ReplyError" || fault.message === "no address") fault = error as Error;
        if (!fault.message.includes("AUTH") && !fault.message.startsWith("WRONGPASS")) break;
      } finally {
        server.disconnect();
      }
    }
  throw fault;
}

/**
 * Resolves to a connection that is ready, or rejects with a StartupFault after about ten seconds.
 * The caller closes it.
 */
export async function connectRedis(url: string, purpose: RedisPurpose): Promise<Redis> {
  const parsed = parseRedisUrl(url);
  let cause = "";
  const onError = (error: Error) => {
    cause = error.message;
  };
  try {
    const kind = await kindOf(url, parsed);
    if (kind === "standalone" && parsed.addresses.length > 1)
      throw new Error("several addresses are for Sentinels or a cluster, and the server is neither");
    if (kind === "cluster" && parsed.database > 0) throw new Error("a cluster has no database numbers");
    if (kind === "cluster") return await connected(openCluster(parsed, purpose).on("error", onError));
    return await connected(
      withOneSilenceTimer(withHandledSubscriptions(openSingle(parsed, purpose, kind === "sentinel"))).on(
        "error",
        onError,
      ),
    );
  } catch (error) {
    throw new StartupFault(`no Redis at ${redisAddressOf(url)}: ${cause || (error as Error).message}`);
  }
}

/** Connects once, without trying again; afterwards lost connections are opened again for ever. */
async function connected(redis: Single | Cluster): Promise<Redis> {
  try {
    if (redis instanceof Cluster) {
      redis.options.clusterRetryStrategy = never;
      await orEnd(redis, redis.connect());
      redis.options.clusterRetryStrategy = reconnectDelayMs;
      // Its connections open with the first command, which would fail.
      await Promise.all(redis.nodes("master").map((node) => node.ping()));
    } else {
      timeLimits.set(redis, timeLimitsOf(redis.options));
      Object.assign(redis.options, { retryStrategy: never, sentinelRetryStrategy: never });
      await withStartupTimeLimits(redis, () => redis.connect());
      Object.assign(redis.options, { retryStrategy: reconnectDelayMs, sentinelRetryStrategy: reconnectDelayMs });
      connections.add(redis);
      redis.once("end", () => connections.delete(redis));
    }
  } catch (error) {
    redis.disconnect();
    throw error;
  }
  return redis;
}

/**
 * ioredis never settles the connecting to a cluster that is found while it is not whole; it only
 * ends the connection.
 */
async function orEnd(redis: Cluster, connecting: Promise<void>): Promise<void> {
  const ended = Promise.withResolvers<never>();
  const onEnd = () => ended.reject(new Error("the cluster does not serve: its state is not ok"));
  redis.once("end", onEnd);
  try {
    await Promise.race([connecting, ended.promise]);
  } finally {
    redis.off("end", onEnd);
  }
}

type TimeLimits = Pick<RedisOptions, "connectTimeout" | "socketTimeout" | "commandTimeout">;

const timeLimitsOf = ({ connectTimeout, socketTimeout, commandTimeout }: RedisOptions) =>
  ({ connectTimeout, socketTimeout, commandTimeout }) as TimeLimits;

/** The time limits of each connection, in ordinary times. */
const timeLimits = new WeakMap<object, TimeLimits>();

/**
 * Opens something with a connection while the process may still be busy loading: commands and
 * connections have the time of a first connection. A copy of the connection's options has
 * these limits as well: see `restoreTimeLimits`.
 */
export async function withStartupTimeLimits<Result>(redis: Redis, open: () => Promise<Result>): Promise<Result> {
  const limits = timeLimits.get(redis);
  if (!(redis instanceof Single) || limits === undefined) return open();
  Object.assign(redis.options, {
    connectTimeout: firstConnectTimeoutMs,
    socketTimeout: firstConnectTimeoutMs,
    ...(limits.commandTimeout !== undefined && { commandTimeout: firstConnectTimeoutMs }),
  });
  try {
    return await open();
  } finally {
    Object.assign(redis.options, limits);
  }
}

/** Gives the options that were copied from this connection its ordinary limits. */
export function restoreTimeLimits(redis: Redis, copied: object): void {
  Object.assign(copied, timeLimits.get(redis));
}

/**
 * The servers that a connection leads to: the primaries of a cluster, or the one server. Commands
 * without a key are asked of each.
 */
export const serversOf = (redis: Redis): Redis[] => (redis instanceof Cluster ? redis.nodes("master") : [redis]);

/**
 * The processes that a connection leads to, as a text: it changes when another server takes over,
 * or one restarts. Redis replicates asynchronously, so what it accepted in the moments before may
 * be lost. Rejects when one does not answer.
 */
export async function runIdsOf(redis: Redis): Promise<string> {
  const ids = await Promise.all(
    serversOf(redis).map(async (server) => /^run_id:(\w+)/m.exec(await server.info("server"))?.[1]),
  );
  return ids.toSorted().join();
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

/**
 * The used share of Redis' `maxmemory`, or of its machine's memory when it has no such limit; that
 * of the fullest primary of a cluster. Rejects when Redis does not answer.
 */
export async function usedMemoryShare(redis: Redis): Promise<number> {
  const shares = serversOf(redis).map(async (server) => {
    const text = await server.info("memory");
    const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(text)?.[1] ?? 0);
    const most = field("maxmemory") || field("total_system_memory");
    return most === 0 ? 0 : field("used_memory") / most;
  });
  return Math.max(...(await Promise.all(shares)));
}

/** A server's errors while another takes its place, or while it starts. */
const passing = /^(?:READONLY|CLUSTERDOWN|LOADING|MASTERDOWN|MOVED|ASK|TRYAGAIN|NOREPLICAS) /;

/**
 * Whether Redis refused this command, and would refuse it again: its memory is full, or the user
 * may not do this. Other commands may still succeed.
 */
export const isRefusal = (error: unknown): boolean =>
  error instanceof Error && error.name === "ReplyError" && !passing.test(error.message);
