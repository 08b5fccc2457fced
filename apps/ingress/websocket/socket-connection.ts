/**
 * One WebSocket of a caller and its bounds: arriving frames count as request bodies, leaving frames as unread responses, and a connection that is dead, idle or
 * too old is closed.
 */

import type { WebSocket } from "@fastify/websocket";
import type { FastifyError, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { openaiResponsesProfile, responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { socketFullBytes, socketPendingBytesMax } from "../bounds.ts";
import { isReadAtOnce } from "../http/body-reader.ts";
import { failureOf, tooSlow } from "../http/failures.ts";
import { failureHeadersOf } from "../http/refusals.ts";
import { Refused } from "../http/refused.ts";
import type { Unread, UnreadAnswers } from "../http/unread.ts";
import { UploadPace } from "../http/upload-pace.ts";
import { type CallerFrame, callerFrameOf, errorFrameOf, socketFailure } from "./socket-frame.ts";
import { Turns, type TurnsOptions, turnEndedOf } from "./socket-turns.ts";

/** Bytes of a client's control frame besides its payload: https://www.rfc-editor.org/rfc/rfc6455#section-5.2 */
const controlBytes = 6;
/** https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1 */
const closeCodes = { normal: 1000, goingAway: 1001, policyViolation: 1008, tryAgainLater: 1013 } as const;

export interface ConnectionOptions extends TurnsOptions {
  /** Bytes of responses that callers have not taken. */
  unread: UnreadAnswers;
  /** A new id for a turn. */
  nextId(): string;
  /** Connections without a turn in progress are to be closed. */
  isClosing(): boolean;
}

export class Connection {
  readonly #socket: WebSocket;
  readonly #request: FastifyRequest;
  readonly #options: ConnectionOptions;
  readonly #turns: Turns;
  readonly #unread: Unread;
  readonly #openedAt: number;
  #pingedAt: number;
  /** Bytes were received or sent since the last ping. */
  #moved = true;
  /** The frame that is arriving: its bytes so far, its beginning, and its pace. */
  #arrivingBytes = 0;
  #arrivingSince = 0;
  #pace: UploadPace | undefined;
  #pendingBytes = 0;
  /** Settles when the frame that is being read, and those behind it, are served. */
  #serving: Promise<void> | undefined;

  constructor(socket: WebSocket, request: FastifyRequest, options: ConnectionOptions) {
    const now = options.clock.now();
    this.#socket = socket;
    this.#request = request;
    this.#options = options;
    const port = {
      send: this.#send.bind(this),
      sendOwn: this.#sendOwn.bind(this),
      isFull: () => this.#isFull,
      terminate: () => this.terminate(),
    };
    this.#turns = new Turns(request, options, port);
    this.#unread = options.unread.of(request.caller.id, {
      bytes: () => socket.bufferedAmount,
      cut: () => this.terminate(),
    });
    this.#openedAt = now;
    this.#pingedAt = now;
    request.raw.socket.prependListener("data", ({ length }: Buffer) => this.#arrive(length));
    socket.on("message", (bytes: Buffer, isBinary: boolean) => this.#receive(bytes, isBinary));
    socket.on("pong", (payload: Buffer) => this.#arrive(-controlBytes - payload.length));
    socket.on("ping", (payload: Buffer) => {
      this.#arrive(-controlBytes - payload.length);
      if (!this.#isFull) socket.pong(payload);
    });
    socket.once("close", (code: number) => this.#closed(code));
  }

  /** Checks the time limits. Call it about once a second. */
  tick(now: number): void {
    const { config } = this.#options;
    if (!this.#isOpen) return;
    if (this.#arrivingBytes > 0 && now - this.#arrivingSince > config.requestTimeoutMs)
      this.#shut(closeCodes.policyViolation, { code: "request_timeout", message: "The frame did not arrive in time." });
    else if (this.#isTooSlow(now)) this.#shut(closeCodes.policyViolation, tooSlow(config));
    else if (now - this.#pingedAt >= config.socketPingMs) {
      if (this.#moved) this.#socket.ping();
      else this.terminate();
      this.#moved = false;
      this.#pingedAt = now;
    }
    this.retire(now);
  }

  /** While a large frame is read, the socket is paused, so its sender cannot be too slow. */
  #isTooSlow(now: number): boolean {
    if (this.#arrivingBytes === 0 || this.#serving !== undefined) this.#pace = undefined;
    else this.#pace ??= new UploadPace(this.#options.config, this.#arrivingBytes, now);
    return this.#pace?.isTooSlow(this.#arrivingBytes, now) === true;
  }

  /** Closes the connection if it should close and no turn is in progress. */
  retire(now: number): void {
    const { config, isClosing } = this.#options;
    if (this.#turns.isRunning || !this.#isOpen) return;
    if (isClosing()) this.#refuseMore("This connection's process is stopping");
    else if (now - this.#openedAt >= config.socketAgeMs)
      this.#refuseMore("This connection has reached its maximum age");
    else if (now - this.#turns.lastAt >= config.socketIdleMs) this.#socket.close(closeCodes.normal, "idle");
  }

  terminate(): void {
    this.#socket.terminate();
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  get #isFull(): boolean {
    return this.#socket.bufferedAmount > socketFullBytes;
  }

  /** Clients recognise the error's name and open another connection. */
  #refuseMore(why: string): void {
    if (this.#socket.bufferedAmount > 0) return;
    this.#shut(
      closeCodes.goingAway,
      socketFailure("websocket_connection_limit_reached", `${why}; open a new one to go on.`),
    );
  }

  /** Counts bytes of a frame as they arrive. A negative number takes back bytes that belonged to a control frame. */
  #arrive(bytes: number): void {
    this.#moved = true;
    if (this.#arrivingBytes === 0) {
      this.#arrivingSince = this.#options.clock.now();
      this.#pace = undefined;
    }
    this.#arrivingBytes = Math.max(0, this.#arrivingBytes + bytes);
    try {
      this.#options.bodies.reserve(this.#request, this.#arrivingBytes);
    } catch (error) {
      this.#shut(closeCodes.tryAgainLater, (error as Refused).failure);
    }
    if (this.#arrivingBytes === 0) this.#request.held.hold(0);
  }

  /** Serves frames in order. While a large one is read, the socket is paused. */
  #receive(bytes: Buffer, isBinary: boolean): void {
    if (!this.#isOpen) return;
    this.#arrivingBytes = 0;
    const serving =
      this.#serving === undefined
        ? this.#serve(bytes, isBinary)
        : this.#serving.then(() => this.#serve(bytes, isBinary));
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
  #serve(bytes: Buffer, isBinary: boolean): Promise<void> | undefined {
    if (!this.#isOpen) return undefined;
    const requestId = this.#options.nextId();
    let streamId: string | undefined;
    const refuse = (error: unknown) => this.#refuse(error as Error, requestId, streamId);
    const { held } = this.#request;
    const giveBack = () => void held.hold(0);
    try {
      if (isBinary)
        throw new Refused({ code: "invalid_request", message: "Send text frames, each with one JSON object." });
      const receive = (frame: CallerFrame) => {
        if (!this.#isOpen) return undefined;
        streamId = frame.streamId;
        return this.#turns.receive(frame, requestId);
      };
      const received = isReadAtOnce(bytes)
        ? receive(callerFrameOf(bytes))
        : held.during(this.#options.reader.readFrame(bytes, this.#request.caller.id)).then(receive);
      if (received !== undefined) return received.catch(refuse).then(giveBack);
    } catch (error) {
      refuse(error);
    }
    giveBack();
    return undefined;
  }

  #refuse(error: Error, requestId: string, streamId: string | undefined): void {
    const { events } = this.#options;
    const failure = error instanceof Refused ? error.failure : failureOf(error as FastifyError);
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
    this.#sendOwn(
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
    if (!this.#isOpen) return;
    this.#sendFailure(failure, requestId);
    this.#socket.close(code, failure.code);
    if (this.#arrivingBytes > 0) this.#socket.pause();
  }

  /** Sends a frame that the gateway itself wrote. */
  #sendOwn(frame: Buffer): void {
    if (this.#pendingBytes > socketPendingBytesMax) {
      this.terminate();
      return;
    }
    this.#pendingBytes += frame.length;
    this.#send(frame, () => {
      this.#pendingBytes -= frame.length;
    });
  }

  #send(frame: Buffer, sent: () => void): void {
    this.#together();
    this.#unread.wrote();
    this.#socket.send(this.#unread.isWaiting ? Buffer.from(frame) : frame, { binary: false }, (error) => {
      if (error) return;
      this.#moved = true;
      sent();
      if (!this.#isFull) this.#turns.drained();
      if (this.#options.isClosing()) this.retire(this.#options.clock.now());
    });
  }

  /** Makes all frames of one turn of the event loop leave in one write. */
  #together(): void {
    const { socket } = this.#request.raw;
    if (socket.writableCorked > 0) return;
    socket.cork();
    process.nextTick(() => socket.uncork());
  }

  #closed(code: number): void {
    this.#turns.leave();
    this.#unread.end();
    const { id, caller } = this.#request;
    const { clock, events } = this.#options;
    const durationMs = clock.now() - this.#openedAt;
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
