/** The operations port of a process: /healthz, /readyz, /status, /metrics. Never on the port that callers reach. */
import type { AddressInfo } from "node:net";
import Fastify, { type FastifyInstance } from "fastify";
import type { Registry } from "prom-client";

export interface OperationsOptions {
  metrics: Pick<Registry, "contentType" | "metrics">;
  /** What keeps the process from taking work, in a few words; undefined when it is ready. */
  notReady(): string | undefined;
  /** What the process is busy with, for people and scripts: no content, no secret. */
  status(): object;
}

/** The caller may add routes before it calls `listen`, and must close it. */
export function createOperations({ metrics, notReady, status }: OperationsOptions): FastifyInstance {
  const server = Fastify({ forceCloseConnections: true });
  server.get("/healthz", () => ({ status: "ok" }));
  server.get("/readyz", (_request, reply) => {
    const reason = notReady();
    if (reason !== undefined) reply.code(503);
    return reason === undefined ? { status: "ready" } : { status: "not ready", reason };
  });
  server.get("/status", () => ({
    ready: notReady() === undefined,
    ...(notReady() !== undefined && { reason: notReady() }),
    ...status(),
  }));
  server.get("/metrics", async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.metrics();
  });
  return server;
}

/** Listens and returns the address as a URL; port 0 takes any free port. An address in use is an EADDRINUSE error. */
export async function listen(server: FastifyInstance, host: string, port: number): Promise<string> {
  await server.listen({ host, port });
  const name = host.includes(":") ? `[${host}]` : host;
  return `http://${name}:${(server.server.address() as AddressInfo).port}`;
}
