/** A caller reads which requests of its own key wait: `GET /v1/queue`. */
import type { FastifyInstance } from "fastify";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import { positionOf, secondsOf } from "../generation/queue-place.ts";

const listedMax = 100;

export function addOwnQueueRoute(
  server: FastifyInstance,
  { generations }: { generations: Pick<GenerationLifecycle, "waitingOf"> },
): void {
  server.get("/v1/queue", ({ caller }) => {
    const { count, items } = generations.waitingOf(caller.id, listedMax);
    return {
      object: "list",
      data: items.map(({ requestId, model, queue, state, waitedMs, place }) => ({
        object: "queue.request",
        id: requestId,
        ...{ model, queue, state },
        waited_seconds: Math.round(waitedMs / 100) / 10,
        position: place === undefined ? null : positionOf(place),
        expected_seconds: (place && secondsOf(place)) ?? null,
      })),
      total: count,
      has_more: count > items.length,
    };
  });
}
