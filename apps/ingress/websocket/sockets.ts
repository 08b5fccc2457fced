/** The WebSockets of callers, of every kind. */
import fastifyWebsocket, { type WebSocket } from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { socketCloseMs, socketRetryAfterSeconds } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import type { IngressConfig } from "../common/config.ts";
import { holdSlot } from "../common/failures.ts";
import { Refusal, valueOrThrow } from "../common/refusal.ts";
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

export interface SocketsOptions {
  /** The number of WebSockets of every kind. */
  websockets: Capacity;
  events: EventSink<IngressEvents>;
}

/** The open connections of one kind, and the routes that open them. */
export class Sockets<Connection extends { tick(now: number): void; terminate(): void }> {
  protected readonly connections = new Set<Connection>();
  readonly #capacity: SocketsOptions;

  constructor(capacity: SocketsOptions) {
    this.#capacity = capacity;
  }

  /** Adds a route. It answers a request without a handshake with 426 and `advice`. */
  protected addRoute(
    scope: FastifyInstance,
    url: string,
    advice: string,
    open: (socket: WebSocket, request: FastifyRequest) => Connection,
  ): void {
    scope.route({
      method: "GET",
      url,
      exposeHeadRoute: false,
      onRequest: async (request, reply) => this.#claim(request, reply),
      handler: (_request, reply) => {
        reply.header("upgrade", "websocket");
        throw new Refusal({ code: "upgrade_required", message: advice });
      },
      wsHandler: (socket, request) => {
        const connection = open(socket, request);
        this.connections.add(connection);
        socket.once("close", () => this.connections.delete(connection));
      },
    });
  }

  /** Checks the bounds of each connection. Call it about once a second. */
  tick(now: number): void {
    for (const connection of this.connections) connection.tick(now);
  }

  /** Breaks all connections that are left. */
  close(): void {
    for (const connection of this.connections) connection.terminate();
  }

  /** Claims a socket for a handshake, until its connection is closed. Throws Refusal. */
  #claim({ ws, caller }: FastifyRequest, reply: FastifyReply): void {
    if (!ws || reply.raw.closed) return;
    const { websockets, events } = this.#capacity;
    const overload = { limit: "websockets", keyId: caller.id, retryAfterSeconds: socketRetryAfterSeconds } as const;
    valueOrThrow(holdSlot(reply.raw, websockets, events, overload));
  }
}
