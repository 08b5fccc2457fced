/**
 * The vendors' APIs of files and batches, which control serves. Their paths are the same, so the
 * headers of the client decide whose API a request is for.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { InternalClaims } from "#access/internal-signature.ts";
import { hashOf } from "#access/key.ts";
import { uploadPrefix } from "#access/upload-tickets.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import type { Capacity } from "../common/capacity.ts";
import { dialectOf, pathOf, versionedPathOf } from "../common/endpoints.ts";
import { holdSlot } from "../common/failures.ts";
import { valueOrThrow } from "../common/refusal.ts";
import { keyParameters } from "../server/authentication.ts";
import type { ControlLink } from "../server/control-link.ts";
import type { RequestBodies } from "../server/request-bodies.ts";

interface ControlRoutesOptions {
  link: ControlLink;
  events: EventSink<IngressEvents>;
  /** Requests that are passed on. */
  slots: Capacity;
  bodies: RequestBodies;
}

const paths = [
  ...["/v1", "/v1beta"].flatMap((version) => [
    ...["files", "batches"].flatMap((part) => [`${version}/${part}`, `${version}/${part}/*`]),
    `/upload${version}/files`,
  ]),
  ...["uploads", "messages/batches"].flatMap((part) => [`/v1/${part}`, `/v1/${part}/*`]),
];

/** The beginning of control's paths for the API of a dialect. */
const apis: Partial<Record<ConversationDialect, string>> = {
  "openai-chat": "/openai",
  "openai-responses": "/openai",
  "anthropic-messages": "/anthropic",
  gemini: "/gemini",
};

export function addFileRoutes(server: FastifyInstance, options: ControlRoutesOptions): void {
  const { link, bodies, events, slots } = options;
  const claimsOf = ({ url, apiKey }: FastifyRequest): InternalClaims =>
    url.startsWith(uploadPrefix) && apiKey !== undefined ? { keyHash: hashOf(apiKey) } : {};
  void server.register(async (scope) => {
    bodies.takeStreams(scope);
    const handler = (request: FastifyRequest, reply: FastifyReply) => {
      valueOrThrow(holdSlot(reply.raw, slots, events, { limit: "files", keyId: request.caller.id }));
      return link.forward(request, reply, { path: controlPathOf(request), claims: claimsOf(request) });
    };
    for (const url of paths) scope.route({ method: ["GET", "POST", "DELETE"], url, handler });
  });
}

/** The path and the query for control, without an API key in it. */
function controlPathOf({ url, headers }: FastifyRequest): string {
  const api = apis[dialectOf(url, headers)] ?? "/none";
  const query = new URLSearchParams(url.split("?", 2)[1] ?? "");
  for (const name of keyParameters) query.delete(name);
  return `${api}${versionedPathOf(pathOf(url)).rest}${query.size > 0 ? `?${query}` : ""}`;
}
