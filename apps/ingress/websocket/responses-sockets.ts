/**
 * OpenAI's Responses over WebSockets, at GET /v1/responses: the route, and the bounds on all
 * connections together.
 */

import type { WebSocket } from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { Capacity } from "../common/capacity.ts";
import { Refusal } from "../common/refusal.ts";
import { Connection, type ConnectionOptions } from "./socket-connection.ts";
import { claimSocket } from "./sockets.ts";

export class ResponsesSockets {
  /** The bytes of the connections' conversations. */
  readonly conversations: Capacity;
  readonly #options: ConnectionOptions & { websockets: Capacity };
  readonly #connections = new Set<Connection>();
  #isClosing = false;

  /** `websockets`: the number of WebSockets of every kind. */
  constructor(options: Omit<ConnectionOptions, "conversations" | "isClosing"> & { websockets: Capacity }) {
    this.conversations = new Capacity(options.config.keptBytesMax);
    this.#options = { ...options, conversations: this.conversations, isClosing: () => this.#isClosing };
  }

  /** Adds the route. With WebSockets off it answers 426, which makes clients use POST. */
  addTo(scope: FastifyInstance): void {
    scope.route({
      method: "GET",
      url: responsesEndpoint.path,
      exposeHeadRoute: false,
      onRequest: async (request, reply) => claimSocket(request, reply, this.#options),
      handler: (_request, reply) => this.#refusePlain(reply),
      wsHandler: (socket: WebSocket, request: FastifyRequest) => {
        const connection = new Connection(socket, request, this.#options);
        this.#connections.add(connection);
        socket.once("close", () => this.#connections.delete(connection));
        connection.retire(this.#options.clock.now());
      },
    });
  }

  /** Checks the bounds of each connection. Call it about once a second. */
  tick(now: number): void {
    for (const connection of this.#connections) connection.tick(now);
  }

  /** From now on each connection closes as soon as it has no turn in progress. */
  retire(): void {
    this.#isClosing = true;
    for (const connection of this.#connections) connection.retire(this.#options.clock.now());
  }

  /** Breaks all connections that are left. */
  close(): void {
    for (const connection of this.#connections) connection.terminate();
  }

  #refusePlain(reply: FastifyReply): never {
    reply.header("upgrade", "websocket");
    const message =
      this.#options.config.responsesWebsocket === "on"
        ? "GET is for WebSockets here; without one, POST to this address."
        : "WebSockets are switched off here: POST to this address, with stream: true for server-sent events.";
    throw new Refusal({ code: "upgrade_required", message });
  }
}
