/**
 * The vendors' APIs of files, which control serves. Their paths are the same, so the headers of the
 * client decide whose API a request is for.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { dialectOf, pathOf, versionedPathOf } from "../common/endpoints.ts";
import type { ControlLink } from "../server/control-link.ts";
import type { RequestBodies } from "../server/request-bodies.ts";

interface ControlRoutesOptions {
  link: ControlLink;
  bodies: RequestBodies;
}

const paths = ["/v1/files", "/v1/files/*", "/v1/uploads", "/v1/uploads/*"];

/** The beginning of control's paths for the API of a dialect. */
const apis: Partial<Record<ConversationDialect, string>> = {
  "openai-chat": "/openai",
  "openai-responses": "/openai",
};

export function addFileRoutes(server: FastifyInstance, { link, bodies }: ControlRoutesOptions): void {
  void server.register(async (scope) => {
    bodies.takeStreams(scope);
    const handler = (request: FastifyRequest, reply: FastifyReply) =>
      link.forward(request, reply, controlPathOf(request));
    for (const url of paths)
      scope.route({ method: ["GET", "POST", "DELETE"], url, config: { isStreamed: true }, handler });
  });
}

/** The path and the query for control, without an API key in it. */
function controlPathOf({ url, headers }: FastifyRequest): string {
  const api = apis[dialectOf(url, headers)] ?? "/none";
  const query = new URLSearchParams(url.split("?", 2)[1] ?? "");
  query.delete("key");
  return `${api}${versionedPathOf(pathOf(url)).rest}${query.size > 0 ? `?${query}` : ""}`;
}
