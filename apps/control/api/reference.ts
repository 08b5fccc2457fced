/**
 * The reference page of the API. Its script is this server's own; it asks no other server for
 * anything.
 */
import reference from "@scalar/fastify-api-reference";
import type { FastifyInstance } from "fastify";

/**
 * The page's own script makes styles and configures itself inline; addresses of other servers are
 * refused by the browser, whatever the script does.
 */
const policy = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "worker-src 'self' blob:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** Adds the page below `path`; `document` is the path of the OpenAPI document. */
export async function addReferencePage(server: FastifyInstance, path: `/${string}`, document: string): Promise<void> {
  await server.register(reference, {
    routePrefix: path,
    configuration: {
      url: document,
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      showDeveloperTools: "never",
      agent: { disabled: true },
    },
    hooks: {
      onRequest(_request, reply, done) {
        reply.header("content-security-policy", policy);
        done();
      },
    },
  });
}
