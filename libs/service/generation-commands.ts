/**
 * Commands of operators about generations, which only the ingresses know: a message on pub/sub to
 * all of them, and a hash that collects their answers. An ingress that is cut off from Redis misses
 * a command, and is missing among the answers.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { systemClock } from "./clock.ts";
import type { Keyspace } from "./keyspace.ts";
import type { Redis } from "./redis.ts";

/** How long ingresses have for their answers. */
const answerMsMax = 1_000;
const lookEveryMs = 10;
const answersLifeMs = 10_000;

export interface GenerationFilter {
  model?: string;
  /** The id of a key. */
  key?: string;
  queue?: string;
}

/**
 * `list`: the oldest `limit` generations that are not over. `stop`: one generation. `clear`: those
 * of a queue that wait for a worker.
 */
export type GenerationCommand =
  | { kind: "list"; filter: GenerationFilter; limit: number }
  | { kind: "stop"; generation: string; reason: string }
  | { kind: "clear"; queue: string; reason: string };

export interface RunningGeneration {
  id: string;
  keyId: string;
  keyName: string;
  account: string | null;
  group: string;
  model: string;
  queue: string;
  operation: string;
  /** `queued`: in an ingress. `dispatched`: its job is on the queue. */
  state: "queued" | "dispatched" | "running";
  /** Epoch milliseconds. */
  since: number;
  isStreamed: boolean;
  /** The upstream's output so far; null until the upstream reports it. */
  outputTokens: number | null;
  upstream: string | null;
  /** The upstream's name of the model. */
  target: string | null;
  worker: string | null;
}

export interface CommandAnswer {
  /** How many generations match the list's filter, or were ended. */
  count: number;
  /** The items of a list, oldest first. */
  items?: RunningGeneration[];
}

interface Sent {
  id: string;
  command: GenerationCommand;
}

/**
 * The answers by ingress, of those that answered within a second. Waits for these ingresses only.
 * Rejects while Redis is away.
 */
export async function commandIngresses(
  redis: Redis,
  keyspace: Keyspace,
  command: GenerationCommand,
  ingresses: readonly string[],
): Promise<Map<string, CommandAnswer>> {
  const sent: Sent = { id: randomUUID(), command };
  const until = systemClock.now() + answerMsMax;
  await redis.publish(keyspace.commands, JSON.stringify(sent));
  for (;;) {
    const answers = await redis.hgetall(keyspace.commandAnswers(sent.id));
    if (ingresses.every((ingress) => ingress in answers) || systemClock.now() > until)
      return new Map(Object.entries(answers).map(([ingress, text]) => [ingress, JSON.parse(text) as CommandAnswer]));
    await delay(lookEveryMs);
  }
}

export interface CommandListenerOptions {
  redis: Redis;
  /**
   * A shared connection in subscriber mode. The caller closes both connections, after the listener.
   */
  subscriber: Redis;
  keyspace: Keyspace;
  /** The name of this process. */
  self: string;
  obey(command: GenerationCommand): CommandAnswer;
}

/** Resolves when the process listens, to what ends it. */
export async function listenForCommands(options: CommandListenerOptions): Promise<() => void> {
  const { redis, subscriber, keyspace, self, obey } = options;
  const channel = Buffer.from(keyspace.commands);
  const onMessage = (from: Buffer, message: Buffer) => {
    if (from.equals(channel)) answer(JSON.parse(message.toString()) as Sent).catch(() => undefined);
  };
  const answer = async ({ id, command }: Sent) => {
    const key = keyspace.commandAnswers(id);
    const text = JSON.stringify(obey(command));
    await redis.multi().hset(key, self, text).pexpire(key, answersLifeMs).exec();
  };
  subscriber.on("messageBuffer", onMessage);
  await subscriber.subscribe(keyspace.commands);
  return () => {
    subscriber.off("messageBuffer", onMessage);
    subscriber.unsubscribe(keyspace.commands).catch(() => undefined);
  };
}
