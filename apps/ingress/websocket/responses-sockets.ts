/**
 * OpenAI's Responses over WebSockets, at GET /v1/responses: the route, and the bounds on all
 * connections together.
 */

import type { FastifyInstance } from "fastify";
import { responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { Capacity } from "../common/capacity.ts";
import { Connection, type ConnectionOptions } from "./socket-connection.ts";
import { Sockets, type SocketsOptions } from "./sockets.ts";

export class ResponsesSockets extends Sockets<Connection> {
  /** The bytes of the connections' conversations. */
  readonly conversations: Capacity;
  readonly #options: ConnectionOptions;
  #isClosing = false;

  constructor(options: Omit<ConnectionOptions, "conversations" | "isClosing"> & SocketsOptions) {
    super(options);
    this.conversations = new Capacity(options.config.keptBytesMax);
    this.#options = { ...options, conversations: this.conversations, isClosing: () => this.#isClosing };
  }

  /** Adds the route. With WebSockets off it answers 426, which makes clients use POST. */
  addTo(scope: FastifyInstance): void {
    const { config, clock } = this.#options;
    const advice =
      config.responsesWebsocket === "on"
        ? "GET is for WebSockets here; without one, POST to this address."
        : "WebSockets are switched off here: POST to this address, with stream: true for server-sent events.";
    this.addRoute(scope, responsesEndpoint.path, advice, (socket, request) => {
      const connection = new Connection(socket, request, this.#options);
      connection.retire(clock.now());
      return connection;
    });
  }

  /** From now on each connection closes as soon as it has no turn in progress. */
  retire(): void {
    this.#isClosing = true;
    for (const connection of this.connections) connection.retire(this.#options.clock.now());
  }
}
