/** A caller reads which requests of its own key wait, at all ingresses: `GET /v1/queue`. */
import type { FastifyInstance } from "fastify";
import { type CommandAnswers, commandIngresses, countOf, itemsOf } from "#service/generation-commands.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { LiveMap } from "#service/live-map.ts";
import type { Redis } from "#service/redis.ts";
import { ownQueueMs } from "../common/bounds.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";

const listedMax = 100;

export interface OwnQueueOptions extends RedisWait {
  redis: Redis;
  keyspace: Keyspace;
}

/** However often a caller asks, its list is made once in `ownQueueMs`. */
export function addOwnQueueRoute(server: FastifyInstance, options: OwnQueueOptions): void {
  const { clock } = options;
  const lists = new LiveMap<string, Promise<CommandAnswers>>();
  const listOf = (key: string): Promise<CommandAnswers> => {
    const present = lists.get(key);
    if (present !== undefined) return present;
    const command = { kind: "list", filter: { key, isWaiting: true }, limit: listedMax } as const;
    const list = outlastRedis(options, () => commandIngresses(options, command, clock.epoch()));
    lists.set(key, list);
    const forget = () => lists.delete(key);
    list.then(() => setTimeout(forget, ownQueueMs).unref(), forget);
    return list;
  };
  server.get("/v1/queue", async ({ caller }) => {
    const answers = await listOf(caller.id);
    const [items, total, now] = [itemsOf(answers, listedMax), countOf(answers), clock.epoch()];
    return {
      object: "list",
      data: items.map(({ requestId, model, queue, state, since, position, expectedSeconds }) => ({
        object: "queue.request",
        id: requestId,
        ...{ model, queue, state },
        waited_seconds: Math.max(0, Math.round((now - since) / 100) / 10),
        position,
        expected_seconds: expectedSeconds,
      })),
      total,
      has_more: total > items.length,
      is_complete: answers.silent.length === 0,
    };
  });
}
