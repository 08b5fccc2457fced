/**
 * Serves the built console: its files, and its page at every other address that a browser opens.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import fastifyStatic from "@fastify/static";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

export interface ConsoleOptions {
  /** The directory of the build. It may appear later, while the first build runs. */
  directory: string;
  /** Where the playground calls the gateway from the browser: origins, read for each page. */
  gatewayOrigins(): readonly string[];
  /** The name and logo of the installation, which every page shows from its first moment. */
  installation(): { name: string; logo: { address: string } | null };
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

/** The page with the name of the installation, and the address of its logo. */
function pageWith(html: string, { name, logo }: ReturnType<ConsoleOptions["installation"]>): string {
  const meta = (key: string, content: string) => `<meta name="${key}" content="${escaped(content)}">`;
  const head = `<title>${escaped(name)}</title>${meta("installation", name)}${logo ? meta("logo", logo.address) : ""}`;
  return html.replace(/<title>.*?<\/title>/, () => head);
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

/** Returns what answers addresses without a route: false if the console has no page there. */
export async function addConsole(
  server: FastifyInstance,
  { directory, gatewayOrigins, installation }: ConsoleOptions,
): Promise<(request: FastifyRequest, reply: FastifyReply) => boolean> {
  await server.register(fastifyStatic, { root: directory, serve: false, preCompressed: true });
  server.get("/assets/*", { schema: { hide: true } }, (request, reply) =>
    reply.sendFile(`assets/${(request.params as { "*": string })["*"]}`, { maxAge: "365d", immutable: true }),
  );
  for (const file of ["color-scheme.js", "icon.svg"])
    server.get(`/${file}`, { schema: { hide: true } }, (_request, reply) => reply.sendFile(file));
  return (request, reply) => {
    if (!isPage(request)) return false;
    void sendPage(reply);
    return true;
  };

  async function sendPage(reply: FastifyReply): Promise<void> {
    const html = await readFile(join(directory, "index.html"), "utf8").catch(() => undefined);
    reply.type("text/html; charset=utf-8");
    if (html === undefined)
      reply
        .code(503)
        .header("retry-after", "1")
        .send(
          '<!doctype html><meta http-equiv="refresh" content="1"><title>Console</title><p>The console is being built.',
        );
    else
      reply
        .headers({ "content-security-policy": policyFor(gatewayOrigins()), "cache-control": "no-cache" })
        .send(pageWith(html, installation()));
  }
}
