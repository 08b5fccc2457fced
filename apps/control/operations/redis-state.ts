import type { Redis } from "#service/redis.ts";
import type { LiveState } from "./live-state.ts";

/** What Redis says of itself. Rejects while it is away. */
export async function readRedisState(redis: Redis): Promise<LiveState["redis"]> {
  const info = await redis.info("all");
  const field = (name: string) => new RegExp(`^${name}:(.*)$`, "m").exec(info)?.[1]?.trim();
  const number = (name: string) => Number(field(name) ?? 0);
  const valkey = field("valkey_version");
  return {
    version: valkey === undefined ? `Redis ${field("redis_version") ?? ""}` : `Valkey ${valkey}`,
    memoryBytes: number("used_memory"),
    memoryMaxBytes: number("maxmemory"),
    clients: number("connected_clients"),
    commandsPerSecond: number("instantaneous_ops_per_sec"),
  };
}
