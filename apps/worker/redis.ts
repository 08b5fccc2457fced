/** How a worker reaches Redis. */
import type { JobWorker, TransportHandlers } from "#relay/ports.ts";
import { type JobWorkerOptions, openJobWorker } from "#relay/redis/job-worker.ts";
import { type Mailbox, openMailbox } from "#relay/redis/mailbox.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";

/** The worker closes everything that it opens here. */
export interface WorkerRedis {
  readonly keyspace: Keyspace;
  /** A connection for commands. */
  connect(): Promise<Redis>;
  openMailbox(handlers: TransportHandlers): Promise<Mailbox>;
  openJobWorker(options: Omit<JobWorkerOptions, "redisUrl" | "keyspace">): Promise<JobWorker>;
}

export function workerRedisOf({ redisUrl, namespace }: { redisUrl: string; namespace: string }): WorkerRedis {
  const keyspace = keyspaceOf(namespace);
  return {
    keyspace,
    connect: () => connectRedis(redisUrl, "request"),
    openMailbox: (handlers) => openMailbox(redisUrl, keyspace, "worker", handlers),
    openJobWorker: (options) => openJobWorker({ ...options, redisUrl, keyspace }),
  };
}
