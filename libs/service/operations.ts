/**
 * The operations port of a process: /healthz, /readyz, /status and /metrics. Callers cannot reach
 * it.
 */
import type { AddressInfo } from "node:net";
import Fastify, { type FastifyInstance } from "fastify";
import type { Registry } from "prom-client";
import { connectionsPendingMax } from "./bounds.ts";
import { listeningAt } from "./startup.ts";

export interface OperationsOptions {
  metrics: Pick<Registry, "contentType" | "metrics">;
  /** Why the process accepts no work, in a few words; undefined when it is ready. */
  notReady(): string | undefined;
  /** The current work of the process, without content or secrets. */
  status(): object;
}

/** The caller may add routes before `listen`, and closes the server. */
export function createOperations({ metrics, notReady, status }: OperationsOptions): FastifyInstance {
  const server = Fastify({ forceCloseConnections: true });
  server.get("/healthz", () => ({ status: "ok" }));
  server.get("/readyz", (_request, reply) => {
    const reason = notReady();
    if (reason !== undefined) reply.code(503);
    return reason === undefined ? { status: "ready" } : { status: "not ready", reason };
  });
  server.get("/status", () => {
    const reason = notReady();
    return { ready: reason === undefined, ...(reason !== undefined && { reason }), ...status() };
  });
  server.get("/metrics", async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.metrics();
  });
  return server;
}

/**
 * Listens and returns the address as a URL. Port 0 uses any free port. A port in use is a
 * StartupFault that names `setting`, the variable that sets it.
 */
export async function listen(server: FastifyInstance, host: string, port: number, setting: string): Promise<string> {
  await listeningAt(setting, server.listen({ host, port, backlog: connectionsPendingMax }));
  const name = host.includes(":") ? `[${host}]` : host;
  return `http://${name}:${(server.server.address() as AddressInfo).port}`;
}
