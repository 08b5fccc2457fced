/**
 * The operations port of an ingress: readiness, status, metrics, and job inspection if a password
 * is set.
 */
import type { FastifyInstance } from "fastify";
import type { Registry } from "prom-client";
import { catalogueStatusOf } from "#catalogue/log.ts";
import { registerProcessMetrics, stopping } from "#service/metrics.ts";
import type { OpenFiles } from "#service/open-files.ts";
import { createOperations } from "#service/operations.ts";
import type { ProcessReporterOptions } from "#service/process-reports.ts";
import type { Backends } from "./backends.ts";
import { type GaugeSources, registerIngressGauges } from "./gauges.ts";
import type { GenerationLifecycle } from "./generation/lifecycle.ts";
import type { LoadCounts } from "./observability/load-counts.ts";

export interface IngressOperationsOptions extends GaugeSources {
  registry: Registry;
  backends: GaugeSources["backends"] & Pick<Backends, "boardAt">;
  generations: GenerationLifecycle;
  openFiles: OpenFiles;
  draining: AbortSignal;
  operatorPassword(): string | undefined;
  counts: LoadCounts;
  /** Starts the reports to operators; returns what ends them. */
  startReports(report: Pick<ProcessReporterOptions, "notReady" | "status">): void;
}

/** The caller must close the server. */
export async function createIngressOperations(options: IngressOperationsOptions): Promise<FastifyInstance> {
  const { registry, backends, generations, capacities, openFiles, draining, operatorPassword, counts } = options;
  const refreshGauges = registerIngressGauges(registry, options);
  const own = {
    notReady: () => (draining.aborted ? stopping : (generations.notReady ?? openFiles.shortage)),
    status: () => ({
      role: "ingress",
      ...catalogueStatusOf(backends.catalogue),
      keys: backends.keys.count(),
      generations: generations.size,
      bodiesBytes: capacities.bodies.used,
      counts,
      queues: generations
        .statistics()
        .map(({ oldestWaitMs, ...queue }) => ({ ...queue, oldestWaitMs: Math.round(oldestWaitMs) })),
    }),
  };
  registerProcessMetrics(registry, { ...own, role: "ingress" });
  options.startReports(own);
  const operations = createOperations({
    ...own,
    metrics: {
      contentType: registry.contentType,
      metrics: async () => {
        await refreshGauges();
        return registry.metrics();
      },
    },
  });
  if (operatorPassword() !== undefined) {
    const { addInspection } = await import("./inspection.ts");
    await addInspection(operations, backends.boardAt, operatorPassword);
  }
  return operations;
}
