/** The operations port of a process: /healthz, /readyz, /metrics. Never on the port that callers reach. */
import Fastify, { type FastifyInstance } from "fastify";
import type { Registry } from "prom-client";

export interface OperationsOptions {
  host: string;
  /** 0 takes any free port. */
  port: number;
  metrics: Registry;
  /** What keeps the process from taking work, in a few words; undefined when it is ready. */
  notReady(): string | undefined;
}

/** Serves at once; the caller may add routes before `listen` and must close it. */
export function createOperations({ metrics, notReady }: OperationsOptions): FastifyInstance {
  const server = Fastify({ forceCloseConnections: true });
  server.get("/healthz", () => ({ status: "ok" }));
  server.get("/readyz", (_request, reply) => {
    const reason = notReady();
    if (reason !== undefined) reply.code(503);
    return reason === undefined ? { status: "ready" } : { status: "not ready", reason };
  });
  server.get("/metrics", async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.metrics();
  });
  return server;
}
