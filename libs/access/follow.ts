/**
 * Keeps a process's copy of the key records current, so that authentication needs no round trip.
 * Changes arrive as notices on pub/sub. Notices can be lost, so the copy compares its version with Redis three times a second and reads all records again after a
 * gap or a lost connection. While Redis is unavailable, the copy stays in use.
 */
import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { compareEveryMs } from "./bounds.ts";
import { createKeyCopy, type KeyCopy } from "./copy.ts";
import { noticeOf } from "./projection.ts";

export interface KeyFollower extends Pick<KeyCopy, "find" | "look" | "isRevoked" | "origins" | "count"> {
  close(): void;
}

export interface FollowOptions {
  /** Has the purpose `request`. */
  redis: Redis;
  /** A shared connection in subscriber mode with the purpose `patient`. The caller closes both connections, after the follower. */
  subscriber: Redis;
  keyspace: Keyspace;
  log: Logger;
}

/** Resolves when the copy is complete; rejects when Redis does not answer. The follower itself never throws. */
export async function followKeys({ redis, subscriber, keyspace, log }: FollowOptions): Promise<KeyFollower> {
  const copy = createKeyCopy(redis, keyspace, log);
  const channel = Buffer.from(keyspace.keysChanged);
  const onMessage = (from: Buffer, message: Buffer) => {
    if (from.equals(channel)) copy.notice(noticeOf(message.toString()));
  };
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const close = () => {
    isClosed = true;
    clearTimeout(timer);
    redis.off("ready", copy.invalidate);
    subscriber.off("messageBuffer", onMessage);
    subscriber.unsubscribe(keyspace.keysChanged).catch(() => {});
  };
  const compare = async () => {
    await copy.compare();
    if (!isClosed) timer = setTimeout(compare, compareEveryMs);
  };

  subscriber.on("messageBuffer", onMessage);
  try {
    await subscriber.subscribe(keyspace.keysChanged);
    await copy.open();
  } catch (error) {
    close();
    throw error;
  }
  redis.on("ready", copy.invalidate);
  timer = setTimeout(compare, compareEveryMs);
  const { find, look } = copy;
  return { find, look, isRevoked: copy.isRevoked, origins: copy.origins, count: copy.count, close };
}
