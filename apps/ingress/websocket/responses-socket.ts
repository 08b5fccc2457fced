/** OpenAI's Responses over WebSockets, at GET /v1/responses, and the bounds on all of them together. */
import fastifyWebsocket from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Capacity } from "../admission/capacity.ts";
import { responsesPath } from "../http/endpoints.ts";
import { overloadOf } from "../http/failures.ts";
import { Refused } from "../http/requests.ts";
import { Connection, type ConnectionOptions } from "./socket-connection.ts";

/** How often each connection is looked at. */
const tickMs = 1_000;
/** How long a caller may take to answer a close. */
const closeMs = 2_000;

export interface ResponsesSockets {
  /** From now on each connection is told to go as soon as it has no turn under way. */
  retire(): void;
  /** Breaks all that are left. */
  close(): void;
  /** What all connections share: their number, and the bytes of their conversations. */
  readonly websockets: Capacity;
  readonly conversations: Capacity;
}

/** Seconds after which a caller may try to open another connection. */
const retryAfterSeconds = 5;

/** Adds the endpoint; switched off, it refuses with 426, by which clients know to POST. */
export function addResponsesSocket(
  server: FastifyInstance,
  options: Omit<ConnectionOptions, "server" | "kept" | "isClosing">,
): ResponsesSockets {
  const { config, metrics } = options;
  const connections = new Set<Connection>();
  const websockets = new Capacity(config.socketsMax);
  const conversations = new Capacity(config.keptBytesMax);
  let isClosing = false;
  const ticking = setInterval(() => {
    for (const connection of connections) connection.tick(performance.now());
  }, tickMs);

  const refusePlain = (_request: FastifyRequest, reply: FastifyReply) => {
    reply.header("upgrade", "websocket");
    const message =
      config.responsesWebsocket === "on"
        ? "GET is for WebSockets here; without one, POST to this address."
        : "WebSockets are switched off here: POST to this address, with stream: true for server-sent events.";
    throw new Refused({ code: "upgrade_required", message });
  };

  const socketOptions = {
    maxPayload: config.bodyBytesMax,
    perMessageDeflate: false,
    autoPong: false,
    closeTimeout: closeMs,
  };
  server.register(async (scope) => {
    if (config.responsesWebsocket === "on")
      await scope.register(fastifyWebsocket, {
        options: socketOptions,
        // What breaks on the wire closes the connection by itself, with the code that says why.
        errorHandler: (_error, socket) => socket.close(),
      });
    scope.route({
      method: "GET",
      url: responsesPath,
      exposeHeadRoute: false,
      async onRequest({ ws, caller }, reply) {
        if (!ws || reply.raw.closed) return;
        const slot = websockets.claim(caller.id);
        const shortage = slot.hold(1);
        if (shortage !== undefined) throw new Refused(overloadOf(metrics, "websockets", shortage, retryAfterSeconds));
        reply.raw.once("close", () => slot.end());
      },
      handler: refusePlain,
      wsHandler(socket, request) {
        const connection = new Connection(
          socket,
          request,
          { ...options, server, kept: conversations, isClosing: () => isClosing },
          performance.now(),
        );
        connections.add(connection);
        socket.once("close", () => connections.delete(connection));
        connection.retire(performance.now());
      },
    });
  });

  return {
    websockets,
    conversations,
    retire() {
      isClosing = true;
      for (const connection of connections) connection.retire(performance.now());
    },
    close() {
      clearInterval(ticking);
      for (const connection of connections) connection.terminate();
    },
  };
}
