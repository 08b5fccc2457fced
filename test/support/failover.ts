/**
 * Two Redis servers of a test, and an address that leads to the current primary, as a DNS name or a
 * proxy does.
 */
import { mkdtemp, rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { startRedis } from "./redis.ts";

export interface Failover extends AsyncDisposable {
  url: string;
  /**
   * Makes the other one the primary, and resolves with a connection to it. The demoted one keeps
   * its connections, and follows nobody that there is.
   */
  failOver(): Promise<Redis>;
}

export async function startFailover(): Promise<Failover> {
  const directory = await mkdtemp(join(tmpdir(), "primary-"));
  const leadTo = async (server: string) => {
    await symlink(new URL(server).pathname, join(directory, "next.sock"));
    await rename(join(directory, "next.sock"), join(directory, "primary.sock"));
  };
  const servers = [await startRedis(), await startRedis()] as const;
  const [first, second] = [
    await connectRedis(servers[0].url, "patient"),
    await connectRedis(servers[1].url, "patient"),
  ];
  await leadTo(servers[0].url);
  return {
    url: `unix://${join(directory, "primary.sock")}`,
    failOver: async () => {
      const [old, next, address] =
        (await first.role())[0] === "master" ? [first, second, servers[1].url] : [second, first, servers[0].url];
      await next.replicaof("NO", "ONE");
      await leadTo(address);
      await old.replicaof("127.0.0.1", "1");
      return next;
    },
    [Symbol.asyncDispose]: async () => {
      for (const redis of [first, second]) redis.disconnect();
      for (const server of servers) await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true });
    },
  };
}
