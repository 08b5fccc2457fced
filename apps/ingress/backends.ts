/**
 * Everything that an ingress opens before it can serve: the catalogue, the connections to Redis,
 * the queues, its mailbox and the API keys.
 */
import type { Logger } from "pino";
import { KeyFollower } from "#access/follow.ts";
import { catalogueLogOf } from "#catalogue/log.ts";
import { followStoredCatalogue } from "#catalogue/publication.ts";
import type { CatalogueWatch, WatchListeners } from "#catalogue/watch.ts";
import type { SlotBoard, Transport } from "#relay/ports.ts";
import { openJobQueue } from "#relay/redis/job-queue.ts";
import { Mailbox } from "#relay/redis/mailbox.ts";
import { RedisSlotBoard } from "#relay/redis/queue-slots.ts";
import { openSplitQueue } from "#relay/redis/split-queue.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import { followControls, type OperatorControls } from "#service/operator-controls.ts";
import type { Protocols } from "#service/protocol.ts";
import { type Redis, type RedisPurpose, withStartupTimeLimits } from "#service/redis.ts";
import type { Board } from "./inspection.ts";
import { OpenQueues } from "./open-queues.ts";

export interface BackendDeps {
  log: Logger;
  /** Prints one line on the operator's terminal, besides the log. */
  report(line: string): void;
  /** Opens a connection that is ready; its receiver closes it. */
  connectRedis(purpose: RedisPurpose): Promise<Redis>;
  /** Opens the catalogue; its receiver closes it. */
  watchCatalogue(listeners: WatchListeners): CatalogueWatch;
  /** By default the protocols of this checkout. */
  protocols?: Protocols;
}

export interface Backends {
  keyspace: Keyspace;
  catalogue: CatalogueWatch;
  redis: Redis;
  /** A separate connection for large values, so that they do not delay others. */
  bodies: Redis;
  queues: OpenQueues;
  mailbox: Transport;
  /**
   * A connection in subscriber mode for all channels of the process. The mailbox disconnects it.
   */
  subscriber: Redis;
  slotBoard: SlotBoard;
  /** The page that lists jobs, at this path. */
  boardAt(basePath: string): Promise<Board>;
  keys: KeyFollower;
  controls: OperatorControls;
}

/**
 * Opens all backends in order. `resources` closes them in reverse order, also if one fails to open.
 */
export async function openBackends(
  config: { namespace: string; redisUrl: string },
  { log, report, connectRedis, watchCatalogue, protocols }: BackendDeps,
  resources: AsyncDisposableStack,
): Promise<Backends> {
  const keyspace = keyspaceOf(config.namespace, protocols);
  const onRedisError = (error: Error) => log.debug({ err: error }, "redis");
  const connect = async () => {
    const connection = await connectRedis("request");
    resources.defer(() => connection.disconnect());
    return connection.on("error", onRedisError);
  };
  const redis = await connect();
  const bodies = await connect();

  const openPart = (part: string) => openJobQueue(part, redis, keyspace, onRedisError);
  const { current: protocol } = keyspace.protocols;
  const queues = new OpenQueues((name, count) => openSplitQueue(name, { count, protocol }, openPart), onRedisError);
  const logged = catalogueLogOf(log);
  const catalogue = watchCatalogue({
    onChange(changed) {
      logged.onChange(changed);
      void queues.open(changed.queues);
    },
    onFault(fault) {
      logged.onFault(fault);
      report(
        fault === undefined
          ? "the catalogue is good again"
          : `the catalogue is refused, the last good one stays: ${fault}`,
      );
    },
  });
  resources.defer(() => catalogue.close());
  resources.defer(() => queues.close());

  const publisher = await connectRedis("request");
  const subscriber = await connectRedis("subscribe");
  const mailbox = new Mailbox({ publisher, subscriber }, keyspace, "ingress");
  resources.defer(() => mailbox.close());
  const slotBoard = new RedisSlotBoard(redis, keyspace, { self: mailbox.self, role: "ingress" });
  const keys = await withStartupTimeLimits(redis, () => KeyFollower.open({ redis, subscriber, keyspace, log }));
  resources.defer(() => keys.close());
  const controls = await withStartupTimeLimits(redis, () => followControls({ redis, subscriber, keyspace }));
  resources.defer(() => controls.close());
  const followed = { redis, subscriber, keyspace, watch: catalogue };
  resources.defer(await withStartupTimeLimits(redis, () => followStoredCatalogue(followed)));
  await queues.open(catalogue.current().queues);
  const boardAt = async (basePath: string): Promise<Board> => {
    const { QueueBoard } = await import("#relay/redis/queue-board.ts");
    const board = new QueueBoard({ redis, keyspace, basePath, onError: onRedisError });
    return {
      plugin: board.plugin,
      refresh: () => board.show([...queues.byName.values()].flatMap(({ parts }) => parts)),
    };
  };
  return { keyspace, catalogue, redis, bodies, queues, mailbox, subscriber, slotBoard, boardAt, keys, controls };
}
