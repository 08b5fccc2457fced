/** A worker's connections to Redis. */
import type { JobWorker, Transport } from "#relay/ports.ts";
import { type JobWorkerOptions, openJobWorker } from "#relay/redis/job-worker.ts";
import { openMailbox } from "#relay/redis/mailbox.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";

/** The worker closes everything that it opens here. */
export interface WorkerRedis {
  readonly keyspace: Keyspace;
  /** A connection for commands. */
  connect(): Promise<Redis>;
  openTransport(): Promise<Transport>;
  openJobWorker(options: Omit<JobWorkerOptions, "redisUrl" | "keyspace">): Promise<JobWorker>;
}

export function workerRedisOf({ redisUrl, namespace }: { redisUrl: string; namespace: string }): WorkerRedis {
  const keyspace = keyspaceOf(namespace);
  return {
    keyspace,
    connect: () => connectRedis(redisUrl, "request"),
    openTransport: () => openMailbox(redisUrl, keyspace, "worker"),
    openJobWorker: (options) => openJobWorker({ ...options, redisUrl, keyspace }),
  };
}
