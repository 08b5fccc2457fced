/** The WebSockets of callers, of every kind. */
import fastifyWebsocket from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { socketCloseMs, socketRetryAfterSeconds } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import type { IngressConfig } from "../common/config.ts";
import { slotOf } from "../common/failures.ts";
import { valueOrThrow } from "../common/refusal.ts";
import { keySubprotocol } from "../server/authentication.ts";

/**
 * OpenAI's clients in browsers offer this beside a subprotocol with their key, which is never
 * repeated.
 */
const realtimeSubprotocol = "realtime";

/** Adds the routes of all kinds. */
export function addSockets(
  server: FastifyInstance,
  { bodyBytesMax }: IngressConfig,
  kinds: readonly { addTo(scope: FastifyInstance): void }[],
): void {
  const options = {
    maxPayload: bodyBytesMax,
    perMessageDeflate: false,
    autoPong: false,
    closeTimeout: socketCloseMs,
    handleProtocols: (offered: Set<string>) =>
      offered.has(realtimeSubprotocol)
        ? realtimeSubprotocol
        : ([...offered].find((name) => !name.startsWith(keySubprotocol)) ?? false),
  };
  server.register(async (scope) => {
    await scope.register(fastifyWebsocket, {
      options,
      // A protocol error closes the connection by itself, with the code that describes it.
      errorHandler: (_error, socket) => socket.close(),
    });
    for (const kind of kinds) kind.addTo(scope);
  });
}

/**
 * Claims one of the sockets of this process for a handshake, until its connection is closed. Throws
 * Refusal.
 */
export function claimSocket(
  { ws, caller }: FastifyRequest,
  reply: FastifyReply,
  { websockets, events }: { websockets: Capacity; events: EventSink<IngressEvents> },
): void {
  if (!ws || reply.raw.closed) return;
  const overload = { limit: "websockets", keyId: caller.id, retryAfterSeconds: socketRetryAfterSeconds } as const;
  const slot = valueOrThrow(slotOf(websockets, events, overload));
  reply.raw.once("close", () => slot.end());
}
