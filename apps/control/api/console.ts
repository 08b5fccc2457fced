/** Serves the built console: its files, and its page at every other address that a browser opens. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import fastifyStatic from "@fastify/static";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

export interface ConsoleOptions {
  /** Of the build. It may appear later, while the first build runs. */
  directory: string;
  /** Where the playground calls the gateway from the browser: origins, read for each page. */
  gatewayOrigins(): readonly string[];
}

/** Styles of Mantine are inline; scripts never are. */
const policyFor = (origins: readonly string[]) =>
  [
    "default-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "media-src 'self' data: blob:",
    `connect-src ${["'self'", ...origins].join(" ")}`,
    "object-src 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
  ].join("; ");

/** Pages that the browser opens; addresses below /api are the API's. */
const isPage = ({ method, url, headers }: FastifyRequest): boolean =>
  (method === "GET" || method === "HEAD") && !url.startsWith("/api/") && (headers.accept ?? "").includes("text/html");

/** Returns what answers addresses without a route: false if the console has no page there. */
export async function addConsole(
  server: FastifyInstance,
  { directory, gatewayOrigins }: ConsoleOptions,
): Promise<(request: FastifyRequest, reply: FastifyReply) => boolean> {
  await server.register(fastifyStatic, { root: directory, serve: false, preCompressed: true });
  server.get("/assets/*", { schema: { hide: true } }, (request, reply) =>
    reply.sendFile(`assets/${(request.params as { "*": string })["*"]}`, { maxAge: "365d", immutable: true }),
  );
  for (const file of ["color-scheme.js", "icon.svg"])
    server.get(`/${file}`, { schema: { hide: true } }, (_request, reply) => reply.sendFile(file));
  return (request, reply) => {
    if (!isPage(request)) return false;
    if (!existsSync(join(directory, "index.html"))) {
      void reply
        .code(503)
        .header("retry-after", "1")
        .type("text/html; charset=utf-8")
        .send(
          '<!doctype html><meta http-equiv="refresh" content="1"><title>Sluice</title><p>The console is being built.',
        );
      return true;
    }
    void reply
      .header("content-security-policy", policyFor(gatewayOrigins()))
      .sendFile("index.html", { cacheControl: false })
      .header("cache-control", "no-cache");
    return true;
  };
}
