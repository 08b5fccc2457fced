/** A channel of pub/sub, on a connection in subscriber mode that others share. */
import type { Redis } from "./redis.ts";

export interface Channel {
  /** Rejects if Redis does not answer. */
  subscribed: Promise<unknown>;
  close(): void;
}

export function openChannel(subscriber: Redis, name: string, hear: (message: Buffer) => void): Channel {
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
