/**
 * Follows a value in Redis: reads it at first, after each notice on a channel, after the connection
 * was lost, and once in a while, because notices can be missed.
 */
import { openChannel } from "./channel.ts";
import type { Redis } from "./redis.ts";

export interface FollowedValue {
  /** For the purpose `request`. */
  redis: Redis;
  /**
   * A shared connection in subscriber mode. The caller closes both connections, after the follower.
   */
  subscriber: Redis;
  channel: string;
  everyMs: number;
  /** Reads the value. One read runs at a time; the value stays while a read rejects. */
  read(): Promise<void>;
}

/** Resolves after the first read, to what ends the following. Rejects if Redis does not answer. */
export async function followValue({ redis, subscriber, channel, everyMs, read }: FollowedValue): Promise<() => void> {
  let isReading = false;
  let isStale = false;
  const update = async () => {
    isStale = true;
    if (isReading) return;
    isReading = true;
    while (isStale && redis.status === "ready") {
      isStale = false;
      await read().catch(() => undefined);
    }
    isReading = false;
  };
  const onReady = () => void update();
  const notices = openChannel(subscriber, channel, onReady);
  subscriber.on("ready", onReady);
  const close = () => {
    subscriber.off("ready", onReady);
    notices.close();
  };
  try {
    await notices.subscribed;
    await read();
  } catch (error) {
    close();
    throw error;
  }
  const timer = setInterval(() => void update(), everyMs);
  return () => {
    clearInterval(timer);
    close();
  };
}
