import { type Redis, serversOf } from "#service/redis.ts";

/** The state of Redis; of a cluster, all primaries together. Rejects while one is away. */
export async function readRedisState(redis: Redis) {
  const infos = await Promise.all(serversOf(redis).map((server) => server.info("all")));
  const field = (info: string, name: string) => new RegExp(`^${name}:(.*)$`, "m").exec(info)?.[1]?.trim();
  const sumOf = (name: string) => infos.reduce((sum, info) => sum + Number(field(info, name) ?? 0), 0);
  const [first = ""] = infos;
  const valkey = field(first, "valkey_version");
  return {
    version: valkey === undefined ? `Redis ${field(first, "redis_version") ?? ""}` : `Valkey ${valkey}`,
    memoryBytes: sumOf("used_memory"),
    memoryMaxBytes: sumOf("maxmemory"),
    clients: sumOf("connected_clients"),
    commandsPerSecond: sumOf("instantaneous_ops_per_sec"),
  };
}
