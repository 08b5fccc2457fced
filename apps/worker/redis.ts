/** A worker's connections to Redis, and the parts of the relay that use them. */
import type { SlotBoard, SplitWorker, Transport } from "#relay/ports.ts";
import { type JobWorkerOptions, openJobWorker } from "#relay/redis/job-worker.ts";
import { Mailbox } from "#relay/redis/mailbox.ts";
import { RedisSlotBoard } from "#relay/redis/queue-slots.ts";
import { splitWorkerOf } from "#relay/redis/split-queue.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import type { Protocols } from "#service/protocol.ts";
import { connectRedis, type Redis } from "#service/redis.ts";

/** The worker closes everything that it opens here. */
export interface WorkerRedis {
  readonly keyspace: Keyspace;
  /** A connection for commands. */
  connect(): Promise<Redis>;
  /** A connection in subscriber mode, for the transport and other channels. */
  connectSubscriber(): Promise<Redis>;
  openTransport(subscriber: Redis): Promise<Transport>;
  /** The worker of one queue, without parts at first. */
  queueWorkerOf(options: JobWorkerOptions, subscriber: Redis): SplitWorker;
  /** `self` is the transport's name. */
  slotBoardOf(redis: Redis, self: string): SlotBoard;
}

export function workerRedisOf(
  { redisUrl, namespace }: { redisUrl: string; namespace: string },
  protocols?: Protocols,
): WorkerRedis {
  const keyspace = keyspaceOf(namespace, protocols);
  return {
    keyspace,
    connect: () => connectRedis(redisUrl, "request"),
    connectSubscriber: () => connectRedis(redisUrl, "subscribe"),
    async openTransport(subscriber) {
      const publisher = await connectRedis(redisUrl, "request");
      return new Mailbox({ publisher, subscriber }, keyspace, "worker");
    },
    queueWorkerOf: (options, subscriber) =>
      splitWorkerOf(options, keyspace.protocols, async (part) =>
        openJobWorker(part, { redis: await connectRedis(redisUrl, "patient"), subscriber }, keyspace),
      ),
    slotBoardOf: (redis, self) => new RedisSlotBoard(redis, keyspace, { self, role: "worker" }),
  };
}
