/** The operations port of an ingress: readiness, status, metrics, and job inspection if a password is set. */
import type { FastifyInstance } from "fastify";
import type { Registry } from "prom-client";
import type { OpenFiles } from "#service/open-files.ts";
import { createOperations } from "#service/operations.ts";
import type { Capacity } from "./admission/capacity.ts";
import type { Backends } from "./backends.ts";
import type { GenerationLifecycle } from "./generation/lifecycle.ts";
import { registerIngressGauges } from "./metrics.ts";
import type { BoundedStore } from "./stored/bounded-store.ts";
import type { DetachedGenerations } from "./stored/detached.ts";

export interface IngressOperationsOptions {
  registry: Registry;
  backends: Pick<Backends, "catalogue" | "keys" | "queues">;
  generations: GenerationLifecycle;
  /** By the name of the limit in the metrics. */
  capacities: Record<string, Capacity> & { bodies: Capacity };
  detached: DetachedGenerations;
  store: BoundedStore;
  openFiles: OpenFiles;
  draining: AbortSignal;
  operatorPassword: string | undefined;
}

/** The caller must close the server. */
export async function createIngressOperations(options: IngressOperationsOptions): Promise<FastifyInstance> {
  const { registry, backends, generations, capacities, detached, store, openFiles, draining, operatorPassword } =
    options;
  const refreshGauges = registerIngressGauges(registry, {
    queues: () => generations.statistics(),
    depths: () => backends.queues.depths(),
    capacities: () => [
      ...Object.entries(capacities).map(([limit, { used, max }]) => ({ limit, queue: "", used, max })),
      ...generations.waiting.map(([queue, { used, max }]) => ({ limit: "waiting", queue, used, max })),
    ],
    bodiesBytes: () => capacities.bodies.used,
    detached: () => detached.size,
    storedBytes: () => store.bytes(),
    keys: () => backends.keys.count(),
  });
  const operations = createOperations({
    metrics: {
      contentType: registry.contentType,
      metrics: async () => {
        await refreshGauges();
        return registry.metrics();
      },
    },
    notReady: () => (draining.aborted ? "stopping" : generations.isReady ? openFiles.shortage : "no link to Redis"),
    status: () => ({
      role: "ingress",
      catalogue: backends.catalogue.current().version,
      keys: backends.keys.count(),
      generations: generations.size,
      bodiesBytes: capacities.bodies.used,
      queues: generations
        .statistics()
        .map(({ oldestWaitMs, ...queue }) => ({ ...queue, oldestWaitMs: Math.round(oldestWaitMs) })),
    }),
  });
  if (operatorPassword !== undefined) {
    const { addInspection } = await import("./inspection.ts");
    await addInspection(operations, backends.queues.byName, operatorPassword);
  }
  return operations;
}
