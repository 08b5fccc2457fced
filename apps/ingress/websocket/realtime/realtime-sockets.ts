/** OpenAI's Realtime and Gemini's Live: the routes, and all sessions of this process. */
import type { FastifyInstance } from "fastify";
import { refusalOf } from "../../common/refusal.ts";
import { addClientSecretRoute, type ClientSecretOptions } from "../../routes/client-secrets.ts";
import { Sockets, type SocketsOptions } from "../sockets.ts";
import { Session, type SessionOptions } from "./session.ts";
import { realtimeApis } from "./session-api.ts";

export interface RealtimeSocketsOptions extends SessionOptions, ClientSecretOptions, SocketsOptions {}

export class RealtimeSockets extends Sockets<Session> {
  readonly #options: RealtimeSocketsOptions;
  #stopsWithinMs: number | undefined;

  constructor(options: RealtimeSocketsOptions) {
    super(options);
    this.#options = options;
  }

  addTo(scope: FastifyInstance): void {
    for (const api of realtimeApis)
      this.addRoute(scope, api.path, "This address is for WebSockets.", (socket, request) => {
        const session = new Session(socket, request, api, this.#options);
        if (this.#stopsWithinMs !== undefined) session.retire(this.#stopsWithinMs);
        return session;
      });
    addClientSecretRoute(scope, "/v1/realtime/client_secrets", this.#options);
    // Before the body, which may be SDP or a form.
    for (const path of unsupportedPaths)
      scope.post(path, { onRequest: async () => unsupported(path) }, () => undefined);
  }

  /** Announces to all callers that this process stops within this time. */
  retire(withinMs: number): void {
    this.#stopsWithinMs = withinMs;
    for (const session of this.connections) session.retire(withinMs);
  }
}

/** Sessions over WebRTC, whose media do not pass a gateway, and endpoints that OpenAI replaced. */
const unsupportedPaths = ["/v1/realtime/calls", "/v1/realtime/sessions", "/v1/realtime/transcription_sessions"];
const unsupported = (path: string): never => {
  throw refusalOf(`${path} is not supported here: open a WebSocket at /v1/realtime?model=<model> with an API key.`);
};
