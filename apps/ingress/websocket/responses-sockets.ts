/** OpenAI's Responses over WebSockets, at GET /v1/responses: the route, and the bounds on all connections together. */

import fastifyWebsocket from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { Capacity } from "../admission/capacity.ts";
import { socketCloseMs, socketRetryAfterSeconds } from "../bounds.ts";
import { overloadOf } from "../http/failures.ts";
import { Refused } from "../http/refused.ts";
import { Connection, type ConnectionOptions } from "./socket-connection.ts";

export class ResponsesSockets {
  /** The number of connections, and the bytes of their conversations. */
  readonly websockets: Capacity;
  readonly conversations: Capacity;
  readonly #options: ConnectionOptions;
  readonly #connections = new Set<Connection>();
  #isClosing = false;

  constructor(options: Omit<ConnectionOptions, "conversations" | "isClosing">) {
    this.websockets = new Capacity(options.config.socketsMax);
    this.conversations = new Capacity(options.config.keptBytesMax);
    this.#options = { ...options, conversations: this.conversations, isClosing: () => this.#isClosing };
  }

  /** Adds the route. With WebSockets off it answers 426, which makes clients use POST. */
  addTo(server: FastifyInstance): void {
    const { config } = this.#options;
    const options = {
      maxPayload: config.bodyBytesMax,
      perMessageDeflate: false,
      autoPong: false,
      closeTimeout: socketCloseMs,
    };
    server.register(async (scope) => {
      if (config.responsesWebsocket === "on")
        await scope.register(fastifyWebsocket, {
          options,
          // A protocol error closes the connection by itself, with the code that describes it.
          errorHandler: (_error, socket) => socket.close(),
        });
      scope.route({
        method: "GET",
        url: responsesEndpoint.path,
        exposeHeadRoute: false,
        onRequest: async (request, reply) => this.#admit(request, reply),
        handler: (_request, reply) => this.#refusePlain(reply),
        wsHandler: (socket, request) => {
          const connection = new Connection(socket, request, this.#options);
          this.#connections.add(connection);
          socket.once("close", () => this.#connections.delete(connection));
          connection.retire(this.#options.clock.now());
        },
      });
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

  #admit({ ws, caller }: FastifyRequest, reply: FastifyReply): void {
    if (!ws || reply.raw.closed) return;
    const slot = this.websockets.claim(caller.id);
    const shortage = slot.hold(1);
    if (shortage !== undefined)
      throw new Refused(overloadOf(this.#options.events, "websockets", shortage, caller.id, socketRetryAfterSeconds));
    reply.raw.once("close", () => slot.end());
  }

  #refusePlain(reply: FastifyReply): never {
    reply.header("upgrade", "websocket");
    const message =
      this.#options.config.responsesWebsocket === "on"
        ? "GET is for WebSockets here; without one, POST to this address."
        : "WebSockets are switched off here: POST to this address, with stream: true for server-sent events.";
    throw new Refused({ code: "upgrade_required", message });
  }
}
