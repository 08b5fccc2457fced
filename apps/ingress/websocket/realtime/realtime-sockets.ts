/** OpenAI's Realtime and Gemini's Live: the routes, and all sessions of this process. */
import type { WebSocket } from "@fastify/websocket";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Capacity } from "../../common/capacity.ts";
import { Refusal, refusalOf } from "../../common/refusal.ts";
import { addClientSecretRoute, type ClientSecretOptions } from "../../routes/client-secrets.ts";
import { claimSocket } from "../sockets.ts";
import { Session, type SessionOptions } from "./session.ts";
import { realtimeApis, type SessionApi } from "./session-api.ts";

export interface RealtimeSocketsOptions extends SessionOptions, ClientSecretOptions {
  /** The number of WebSockets. */
  websockets: Capacity;
}

export class RealtimeSockets {
  readonly #options: RealtimeSocketsOptions;
  readonly #sessions = new Set<Session>();
  #stopsWithinMs: number | undefined;

  constructor(options: RealtimeSocketsOptions) {
    this.#options = options;
  }

  addTo(scope: FastifyInstance): void {
    for (const api of realtimeApis)
      scope.route({
        method: "GET",
        url: api.path,
        exposeHeadRoute: false,
        onRequest: async (request, reply) => claimSocket(request, reply, this.#options),
        handler: (_request, reply) => refusePlain(reply),
        wsHandler: (socket: WebSocket, request: FastifyRequest) => this.#open(socket, request, api),
      });
    addClientSecretRoute(scope, "/v1/realtime/client_secrets", this.#options);
    for (const path of unsupportedPaths)
      scope.post(path, () => {
        throw refusalOf(
          `${path} is not supported here: open a WebSocket at /v1/realtime?model=<model> with an API key.`,
        );
      });
  }

  /** Checks the bounds of each session. Call it about once a second. */
  tick(now: number): void {
    for (const session of this.#sessions) session.tick(now);
  }

  /** Announces to all callers that this process stops within this time. */
  retire(withinMs: number): void {
    this.#stopsWithinMs = withinMs;
    for (const session of this.#sessions) session.retire(withinMs);
  }

  /** Breaks all connections that are left. */
  close(): void {
    for (const session of this.#sessions) session.terminate();
  }

  #open(socket: WebSocket, request: FastifyRequest, api: SessionApi): void {
    const session = new Session(socket, request, api, this.#options);
    this.#sessions.add(session);
    if (this.#stopsWithinMs !== undefined) session.retire(this.#stopsWithinMs);
    socket.once("close", () => this.#sessions.delete(session));
  }
}

/** Sessions over WebRTC, whose media do not pass a gateway, and endpoints that OpenAI replaced. */
const unsupportedPaths = ["/v1/realtime/calls", "/v1/realtime/sessions", "/v1/realtime/transcription_sessions"];

function refusePlain(reply: FastifyReply): never {
  reply.header("upgrade", "websocket");
  throw new Refusal({ code: "upgrade_required", message: "This address is for WebSockets." });
}
