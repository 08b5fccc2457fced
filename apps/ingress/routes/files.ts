/**
 * The vendors' APIs of files and batches, which control serves. Their paths are the same, so the
 * headers of the client decide whose API a request is for.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { InternalClaims } from "#access/internal-signature.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Clock } from "#service/clock.ts";
import { dialectOf, pathOf, versionedPathOf } from "../common/endpoints.ts";
import type { ControlLink } from "../server/control-link.ts";
import type { RequestBodies } from "../server/request-bodies.ts";
import { type UploadTickets, uploadPrefix } from "../server/upload-tickets.ts";

interface ControlRoutesOptions {
  link: ControlLink;
  tickets: UploadTickets;
  clock: Clock;
  bodies: RequestBodies;
}

const paths = [
  ...["/v1", "/v1beta"].flatMap((version) => [`${version}/files`, `${version}/files/*`, `/upload${version}/files`]),
  ...["uploads", "batches", "messages/batches"].flatMap((part) => [`/v1/${part}`, `/v1/${part}/*`]),
];

/** The beginning of control's paths for the API of a dialect. */
const apis: Partial<Record<ConversationDialect, string>> = {
  "openai-chat": "/openai",
  "openai-responses": "/openai",
  "anthropic-messages": "/anthropic",
  gemini: "/gemini",
};

export function addFileRoutes(server: FastifyInstance, { link, bodies, tickets, clock }: ControlRoutesOptions): void {
  const claimsOf = ({ url, apiKey }: FastifyRequest): InternalClaims =>
    url.startsWith(uploadPrefix) && apiKey !== undefined ? { ticket: tickets.of(apiKey, clock.epoch()) } : {};
  void server.register(async (scope) => {
    bodies.takeStreams(scope);
    const handler = (request: FastifyRequest, reply: FastifyReply) =>
      link.forward(request, reply, { path: controlPathOf(request), claims: claimsOf(request) });
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
