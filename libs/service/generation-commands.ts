/**
 * Commands of operators about generations, which only the ingresses know: a message on pub/sub to
 * all of them, and a hash that collects their answers. An ingress that is cut off from Redis misses
 * a command, and is missing among the answers.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { openChannel } from "./channel.ts";
import { systemClock } from "./clock.ts";
import type { Keyspace } from "./keyspace.ts";
import { lateReportMs, readProcessReports } from "./process-reports.ts";
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
  /** Only those that no worker has. */
  isWaiting?: boolean;
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
  requestId: string;
  keyId: string;
  keyName: string;
  account: string | null;
  group: string;
  model: string;
  queue: string;
  operation: string;
  /**
   * `rate_limited`: waits for its caller's limits. `queued`: waits for its turn, in an ingress.
   * `dispatched`: its job is on the queue.
   */
  state: "rate_limited" | "queued" | "dispatched" | "running";
  /** Its place in its line, counted from 1; null if it has none. */
  position: number | null;
  /** The expected wait; null if it is unknown. */
  expectedSeconds: { from: number; to: number } | null;
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

export interface CommandAnswers {
  answers: Map<string, CommandAnswer>;
  /** Ingresses without an answer. */
  silent: string[];
}

/**
 * The answers by ingress, of those that answered within a second. Does not wait for ingresses whose
 * reports are late. `now` in epoch milliseconds. Rejects while Redis is away.
 */
export async function commandIngresses(
  { redis, keyspace }: { redis: Redis; keyspace: Keyspace },
  command: GenerationCommand,
  now: number,
): Promise<CommandAnswers> {
  const ingresses = (await readProcessReports(redis, keyspace, now)).filter(({ role }) => role === "ingress");
  const live = ingresses.filter(({ at }) => now - at <= lateReportMs);
  const sent: Sent = { id: randomUUID(), command };
  const until = systemClock.now() + answerMsMax;
  await redis.publish(keyspace.commands, JSON.stringify(sent));
  for (;;) {
    const texts = await redis.hgetall(keyspace.commandAnswers(sent.id));
    if (live.every(({ id }) => id in texts) || systemClock.now() > until) {
      const answers = new Map(Object.entries(texts).map(([id, text]) => [id, JSON.parse(text) as CommandAnswer]));
      return { answers, silent: ingresses.flatMap(({ id }) => (answers.has(id) ? [] : [id])) };
    }
    await delay(lookEveryMs);
  }
}

/** How many generations match in all. */
export const countOf = ({ answers }: CommandAnswers): number =>
  [...answers.values()].reduce((sum, { count }) => sum + count, 0);

/** The oldest `limit` items of a list, each with its ingress. */
export const itemsOf = ({ answers }: CommandAnswers, limit: number): (RunningGeneration & { ingress: string })[] =>
  [...answers]
    .flatMap(([ingress, { items = [] }]) => items.map((item) => ({ ...item, ingress })))
    .sort((a, b) => a.since - b.since)
    .slice(0, limit);

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
  const answer = async ({ id, command }: Sent) => {
    const key = keyspace.commandAnswers(id);
    const text = JSON.stringify(obey(command));
    await redis.multi().hset(key, self, text).pexpire(key, answersLifeMs).exec();
  };
  const { subscribed, close } = openChannel(subscriber, keyspace.commands, (message) => {
    answer(JSON.parse(message.toString()) as Sent).catch(() => undefined);
  });
  await subscribed;
  return close;
}
