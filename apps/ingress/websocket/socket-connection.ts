/**
 * One WebSocket for OpenAI's Responses: its frames are served in order, and a connection that is
 * idle or too old is closed.
 */

import type { WebSocket } from "@fastify/websocket";
import type { FastifyError, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { openaiResponsesProfile, responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { failureOf } from "../common/failures.ts";
import { Refusal, refusalOf, valueOrThrow } from "../common/refusal.ts";
import { isReadAtOnce } from "../request/body-reader.ts";
import { type CallerFrame, callerFrameOf, errorFrameOf, socketFailure } from "../request/socket-frame.ts";
import { failureHeadersOf } from "../server/refusals.ts";
import { CallerSocket, type CallerSocketOptions, closeCodes, type MessageKind } from "./caller-socket.ts";
import { Turns, type TurnsOptions, turnEndedOf } from "./socket-turns.ts";

export interface ConnectionOptions extends TurnsOptions, CallerSocketOptions {
  /** A new id for a turn. */
  nextId(): string;
  /** Connections without a turn in progress are to be closed. */
  isClosing(): boolean;
}

export class Connection {
  readonly #socket: CallerSocket;
  readonly #request: FastifyRequest;
  readonly #options: ConnectionOptions;
  readonly #turns: Turns;
  /** Settles when the frame that is being read, and those behind it, are served. */
  #serving: Promise<void> | undefined;

  constructor(socket: WebSocket, request: FastifyRequest, options: ConnectionOptions) {
    this.#request = request;
    this.#options = options;
    this.#socket = new CallerSocket(socket, request, options, {
      message: (bytes, kind) => this.#receive(bytes, kind),
      broken: (code, failure) => this.#shut(code, failure),
      sent: () => {
        if (!this.#socket.isFull) this.#turns.drained();
        if (options.isClosing()) this.retire(options.clock.now());
      },
      closed: (code) => this.#closed(code),
    });
    const port = {
      send: (frame: Buffer, sent: () => void) => this.#socket.send(frame, sent),
      sendOwn: (frame: Buffer) => this.#socket.sendOwn(frame),
      isFull: () => this.#socket.isFull,
      terminate: () => this.terminate(),
    };
    this.#turns = new Turns(request, options, port);
  }

  /** Checks the time limits. Call it about once a second. */
  tick(now: number): void {
    this.#socket.tick(now);
    this.retire(now);
  }

  /** Closes the connection if it should close and no turn is in progress. */
  retire(now: number): void {
    const { config, isClosing } = this.#options;
    if (this.#turns.isRunning || !this.#socket.isOpen) return;
    if (isClosing()) this.#refuseMore("This connection's process is stopping");
    else if (now - this.#socket.openedAt >= config.socketAgeMs)
      this.#refuseMore("This connection has reached its maximum age");
    else if (now - this.#turns.lastAt >= config.socketIdleMs) this.#socket.close(closeCodes.normal, "idle");
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /** Clients recognise the error's name and open another connection. */
  #refuseMore(why: string): void {
    if (this.#socket.hasUnsent) return;
    this.#shut(
      closeCodes.goingAway,
      socketFailure("websocket_connection_limit_reached", `${why}; open a new one to go on.`),
    );
  }

  /** Serves frames in order. While a large one is read, the socket is paused. */
  #receive(bytes: Buffer, kind: MessageKind): void {
    const serving =
      this.#serving === undefined ? this.#serve(bytes, kind) : this.#serving.then(() => this.#serve(bytes, kind));
    if (serving === undefined) return;
    this.#serving = serving;
    this.#socket.pause();
    void serving.then(() => {
      if (this.#serving !== serving) return;
      this.#serving = undefined;
      this.#socket.resume();
    });
  }

  /** Never throws and never rejects. */
  #serve(bytes: Buffer, kind: MessageKind): Promise<void> | undefined {
    if (!this.#socket.isOpen) return undefined;
    const requestId = this.#options.nextId();
    let streamId: string | undefined;
    const refuse = (error: unknown) => this.#refuse(error as Error, requestId, streamId);
    const { bodyClaim } = this.#request;
    const giveBack = () => void bodyClaim.hold(0);
    try {
      if (kind === "binary") throw refusalOf("Send text frames, each with one JSON object.");
      const receive = (frame: CallerFrame) => {
        if (!this.#socket.isOpen) return undefined;
        streamId = frame.streamId;
        return this.#turns.receive(frame, requestId);
      };
      const received = isReadAtOnce(bytes)
        ? receive(valueOrThrow(callerFrameOf(bytes)))
        : bodyClaim
            .during(this.#options.reader.readFrame(bytes, this.#request.caller.id))
            .then((read) => receive(valueOrThrow(read)));
      if (received !== undefined) return received.catch(refuse).then(giveBack);
    } catch (error) {
      refuse(error);
    }
    giveBack();
    return undefined;
  }

  #refuse(error: Error, requestId: string, streamId: string | undefined): void {
    const { events } = this.#options;
    const failure = error instanceof Refusal ? error.failure : failureOf(error as FastifyError);
    if (failure.code === "internal") events.emit("fault", { error, requestId });
    const status = openaiResponsesProfile.statusOf(failure.code);
    events.emit(
      "requestEnded",
      turnEndedOf(this.#request, { requestId, status, outcome: "answered", errorCode: failure.code }),
    );
    if (failure.code === "invalid_key") this.#shut(closeCodes.policyViolation, failure, requestId);
    else this.#sendFailure(failure, requestId, streamId);
  }

  #sendFailure(failure: Failure, requestId: string, streamId?: string): void {
    this.#options.events.emit("requestRefused", { requestId, code: failure.code });
    const headers = { ...failureHeadersOf(failure), "x-request-id": requestId };
    this.#socket.sendOwn(
      errorFrameOf(
        openaiResponsesProfile.statusOf(failure.code),
        headers,
        openaiResponsesProfile.errorBodyOf(failure, requestId),
        streamId,
      ),
    );
  }

  /** Sends the failure and closes the connection; the rest of an arriving frame is not read. */
  #shut(code: number, failure: Failure, requestId = this.#request.id): void {
    if (!this.#socket.isOpen) return;
    this.#sendFailure(failure, requestId);
    this.#socket.close(code, failure.code);
  }

  #closed(code: number): void {
    this.#turns.leave();
    const { id, caller } = this.#request;
    const { clock, events } = this.#options;
    const durationMs = clock.now() - this.#socket.openedAt;
    const turns = this.#turns.count;
    events.emit("socketClosed", {
      requestId: id,
      keyId: caller.id,
      path: responsesEndpoint.path,
      turns,
      code,
      durationMs,
    });
  }
}
