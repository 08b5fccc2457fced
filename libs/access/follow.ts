/**
 * A process's own copy of the key records, so that authentication asks nobody.
 * A change arrives as a notice on pub/sub. Notices can be lost, so the copy's version is compared with the one in Redis three times a second, and
 * the whole is read again where they do not line up, and whenever the connection was lost. While Redis is away, the copy serves.
 */

import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { createKeyCopy } from "./copy.ts";
import { noticeOf } from "./projection.ts";
import type { KeyRecord } from "./record.ts";

const compareEveryMs = 300;

export interface KeyFollower {
  /** The record of the key with this hash (see hashOf), whatever its state. */
  find(hash: string): KeyRecord | undefined;
  /** How many records are held. */
  /** By a record's id: was the key revoked, as far as this process knows? */
  isRevoked(id: string): boolean;
  count(): number;
  close(): void;
}

export interface FollowOptions {
  /** Of the purpose `request`. */
  redis: Redis;
  /** In subscriber mode, shared with others, of the purpose `patient`. Both connections stay the caller's to close, after this. */
  subscriber: Redis;
  keyspace: Keyspace;
  log: Logger;
}

/** Holds the whole copy when it resolves; rejects when Redis does not answer. From then on nothing throws. */
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
    redis.off("ready", copy.doubt);
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
  redis.on("ready", copy.doubt);
  timer = setTimeout(compare, compareEveryMs);
  return { find: copy.find, isRevoked: copy.isRevoked, count: copy.count, close };
}
