/** Channels of pub/sub, on a connection in subscriber mode that others share. */
import type { Redis } from "./redis.ts";

type Hear = (message: Buffer) => void;

export interface Channel {
  /** Rejects if Redis does not answer. */
  subscribed: Promise<unknown>;
  close(): void;
}

export function openChannel(subscriber: Redis, name: string, hear: Hear): Channel {
  const channel = Buffer.from(name);
  const onMessage = (from: Buffer, message: Buffer) => {
    if (from.equals(channel)) hear(message);
  };
  subscriber.on("messageBuffer", onMessage);
  return {
    subscribed: subscriber.subscribe(name),
    close() {
      subscriber.off("messageBuffer", onMessage);
      subscriber.unsubscribe(name).catch(() => undefined);
    },
  };
}

/** The receivers of each connection's sharded channels, by name. */
const shardedChannels = new WeakMap<Redis, Map<string, Hear>>();

function shardedChannelsOf(subscriber: Redis): Map<string, Hear> {
  const existing = shardedChannels.get(subscriber);
  if (existing !== undefined) return existing;
  const receivers = new Map<string, Hear>();
  shardedChannels.set(subscriber, receivers);
  subscriber.on("smessageBuffer", (channel: Buffer, message: Buffer) => receivers.get(channel.toString())?.(message));
  return receivers;
}

export interface ShardedChannel {
  /** Rejects if Redis does not answer, or refuses it. ioredis repeats it on a new connection. */
  subscribe(): Promise<unknown>;
  /** Resolves when all messages have been heard that were published before. Never rejects. */
  close(): Promise<void>;
}

/** A channel of sharded pub/sub. A process has at most one of a name on each connection. */
export function openShardedChannel(subscriber: Redis, name: string, hear: Hear): ShardedChannel {
  const receivers = shardedChannelsOf(subscriber);
  receivers.set(name, hear);
  return {
    subscribe: () => subscriber.ssubscribe(name),
    async close() {
      await subscriber.sunsubscribe(name).catch(() => undefined);
      receivers.delete(name);
    },
  };
}
