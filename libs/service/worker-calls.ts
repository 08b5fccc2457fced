/**
 * Calls of control to one worker, because only workers have credentials and reach vendors: a
 * message on pub/sub, whose answer is a key.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { openChannel } from "./channel.ts";
import { systemClock } from "./clock.ts";
import type { Keyspace } from "./keyspace.ts";
import type { Redis } from "./redis.ts";

/** How long a worker has for its answer: more than its own limits for the calls of a test. */
const workerAnswerMsMax = 55_000;
const lookEveryMs = 50;
const answerLifeMs = 10_000;

export interface WorkerCall<Kind extends string = string, Request = unknown> {
  kind: Kind;
  request: Request;
}

interface Sent extends WorkerCall {
  id: string;
  worker: string;
}

/** Undefined if the worker does not answer in time. Rejects while Redis is away. */
export async function callWorker<Answer>(
  { redis, keyspace }: { redis: Redis; keyspace: Keyspace },
  worker: string,
  { kind, request }: WorkerCall,
): Promise<Answer | undefined> {
  const sent: Sent = { id: randomUUID(), worker, kind, request };
  const until = systemClock.now() + workerAnswerMsMax;
  await redis.publish(keyspace.workerCalls, JSON.stringify(sent));
  while (systemClock.now() < until) {
    const text = await redis.get(keyspace.workerAnswer(sent.id));
    if (text !== null) return JSON.parse(text) as Answer;
    await delay(lookEveryMs);
  }
  return undefined;
}

export interface WorkerCallsOptions {
  redis: Redis;
  /**
   * A shared connection in subscriber mode. The caller closes both connections, after the listener.
   */
  subscriber: Redis;
  keyspace: Keyspace;
  /** The name of this worker. */
  self: string;
  /** An answer for each kind of call. A rejection is no answer. */
  run: Readonly<Record<string, (request: never) => Promise<unknown>>>;
}

/** Resolves when the worker listens, to what ends it. */
export async function listenForCalls(options: WorkerCallsOptions): Promise<() => void> {
  const { redis, subscriber, keyspace, self, run } = options;
  const answer = async (id: string, kind: string, request: unknown) => {
    const result = await run[kind]?.(request as never);
    if (result !== undefined) await redis.set(keyspace.workerAnswer(id), JSON.stringify(result), "PX", answerLifeMs);
  };
  const { subscribed, close } = openChannel(subscriber, keyspace.workerCalls, (message) => {
    const { id, worker, kind, request } = JSON.parse(message.toString()) as Sent;
    if (worker === self) answer(id, kind, request).catch(() => undefined);
  });
  await subscribed;
  return close;
}
