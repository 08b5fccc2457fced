/**
 * One session of a caller, from the handshake to the close frame. It is one generation, which
 * begins when the model is known: the upstream's messages are its answer, the caller's are its
 * input.
 */

import type { WebSocket } from "@fastify/websocket";
import type { FastifyError, FastifyRequest } from "fastify";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { type Failure, internalFailure } from "#dialects/errors.ts";
import { profiles } from "#dialects/profiles.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { plainDemandOf } from "#operations/demand.ts";
import { announcementOf, isCreated } from "#operations/realtime/announcement.ts";
import { sessionMessageBytesMax } from "#relay/bounds.ts";
import type { MessageChunk, SessionClose } from "#relay/session-messages.ts";
import type { Admission } from "../../admission/admission.ts";
import { openingBytesMax, sessionBytesMax } from "../../common/bounds.ts";
import { failureOf } from "../../common/failures.ts";
import { labelsOf } from "../../common/labels.ts";
import { Refusal, type Result, valueOrThrow } from "../../common/refusal.ts";
import type { GenerationLifecycle } from "../../generation/lifecycle.ts";
import { SessionFormat, SocketResponse } from "../../response/socket-response.ts";
import {
  CallerSocket,
  type CallerSocketOptions,
  type CloseCode,
  closeCodes,
  type MessageKind,
} from "../caller-socket.ts";
import { errorBodyOf, messageOf, type Opening, type SessionApi, type SessionModel } from "./session-api.ts";
import { InputQueue } from "./session-input.ts";

const realtimeQueue = "realtime";

export interface SessionOptions extends CallerSocketOptions {
  events: EventSink<IngressEvents>;
  admission: Admission;
  generations: GenerationLifecycle;
  catalogue(): Catalogue;
}

export class Session {
  readonly #socket: CallerSocket;
  readonly #request: FastifyRequest;
  readonly #api: SessionApi;
  readonly #options: SessionOptions;
  readonly #input: InputQueue;
  readonly #format: SessionFormat;
  readonly #response: SocketResponse;
  /** The model and its fallbacks, one of which answers; undefined until the session has begun. */
  #model: SessionModel | undefined;
  #sentBytes = 0;
  #receivedBytes = 0;
  #receivedMessages = 0;
  #activeAt: number;
  /** A message that waits for the end of another. */
  #announcement: Buffer | undefined;
  /** The greeting was sent; whether the upstream's first message repeats it. */
  #greeted: { isRepeated: boolean | undefined } | undefined;
  #isStopping = false;
  #isOver = false;

  constructor(socket: WebSocket, request: FastifyRequest, api: SessionApi, options: SessionOptions) {
    this.#request = request;
    this.#api = api;
    this.#options = options;
    this.#socket = new CallerSocket(socket, request, options, {
      message: (bytes, kind) => this.#guarded(() => this.#receive(bytes, kind)),
      broken: (code, failure) => this.#refuse(failure, code),
      sent: () => {
        if (!this.#socket.isFull) this.#response.drained();
      },
      closed: (code) => this.#closed(code),
    });
    this.#input = new InputQueue(() => this.#inputChanged());
    this.#format = new SessionFormat({
      send: (chunk) => this.#deliver(chunk),
      ended: (end) => ("status" in end ? this.#fail(end.status, end.body) : this.#end(end)),
    });
    const port = { isFull: () => this.#socket.isFull, terminate: () => this.terminate() };
    this.#response = new SocketResponse(this.#format, port);
    this.#activeAt = this.#socket.openedAt;
    this.#guarded(() => {
      const opening = api.openedBy(new URLSearchParams(request.url.split("?", 2)[1] ?? ""), request.grant);
      if (opening !== undefined) this.#begin(opening);
      else if (api.greeting !== undefined) {
        this.#greeted = { isRepeated: undefined };
        this.#socket.sendOwn(api.greeting());
      }
    });
  }

  /** Checks the time limits. Call it about once a second. */
  tick(now: number): void {
    const { config, catalogue } = this.#options;
    this.#socket.tick(now);
    if (this.#isOver) return;
    const { sessionMs = config.sessionMs } = catalogue().groups.get(this.#request.caller.group) ?? {};
    if (now - this.#socket.openedAt >= sessionMs) this.#refuse(expired(sessionMs), closeCodes.goingAway);
    else if (now - this.#activeAt >= config.socketIdleMs) this.#refuse(idle, closeCodes.normal);
    else if (this.#model === undefined && now - this.#socket.openedAt >= config.requestTimeoutMs)
      this.#refuse(noOpening, closeCodes.policyViolation);
  }

  /** This process stops within this time; the caller should open another session. */
  retire(withinMs: number): void {
    this.#isStopping = true;
    this.#announcement = announcementOf(this.#api.dialect, Math.ceil(withinMs / 1_000));
    this.#announce();
  }

  terminate(): void {
    this.#socket.terminate();
  }

  #begin(opening: Result<Opening>): void {
    const { model, body, isTranscription } = valueOrThrow(opening);
    const { admission, generations } = this.#options;
    const { dialect } = this.#api;
    valueOrThrow(
      generations.begin({
        http: this.#request,
        requestId: this.#request.id,
        labels: labelsOf(this.#request.caller, this.#request.headers),
        endpoint: { dialect, operation: "realtime", schema: {} },
        model,
        framing: "messages",
        demand: plainDemandOf(),
        bytes: body,
        layers: { sink: this.#response },
        input: this.#input,
        queue: realtimeQueue,
      }),
    );
    const models = [model, ...valueOrThrow(admission.modelFor(this.#request, model)).fallbacks];
    this.#model = { models, ...(isTranscription && { isTranscription }) };
  }

  #receive(bytes: Buffer, kind: MessageKind): void {
    if (this.#isOver) return;
    if (bytes.length > sessionMessageBytesMax) {
      this.#refuse(tooLarge(sessionMessageBytesMax), closeCodes.tooLarge);
      return;
    }
    this.#receivedMessages++;
    this.#receivedBytes += bytes.length;
    this.#moved("up", this.#receivedBytes);
    if (this.#model === undefined) {
      if (bytes.length > openingBytesMax) this.#refuse(tooLarge(openingBytesMax), closeCodes.tooLarge);
      else if (this.#api.mayPrecede?.(bytes)) this.#input.add([{ kind, bytes }]);
      else this.#begin(this.#api.openedWith(bytes));
      return;
    }
    const named = kind === "binary" ? undefined : this.#api.modelIn(bytes, this.#model);
    // A message that names another model is answered with an error, and the session goes on.
    if (named instanceof Refusal) this.#sendError(errorBodyOf(this.#api, named.failure, this.#request.id));
    else if (named === undefined) this.#input.add([{ kind, bytes }]);
    else
      this.#input.add([
        { kind, bytes: bytes.subarray(0, named.start) },
        { kind: "model", bytes: Buffer.alloc(0) },
        { kind, bytes: bytes.subarray(named.end) },
      ]);
  }

  #inputChanged(): void {
    if (this.#isOver) return;
    this.#socket.keep(this.#input.bytes);
    if (this.#input.isFull) this.#socket.pause();
    else if (this.#socket.isPaused) this.#socket.resume();
  }

  #deliver({ kind, bytes, isLast }: MessageChunk): void {
    if (this.#isGreeting(bytes, isLast)) return;
    this.#sentBytes += bytes.length;
    this.#socket.send(bytes, () => undefined, { binary: kind === "binary", fin: isLast });
    if (!isLast) return;
    this.#moved("down", this.#sentBytes);
    this.#announce();
  }

  /** Whether these bytes belong to a greeting that the caller already has. */
  #isGreeting(bytes: Buffer, isLast: boolean): boolean {
    const greeted = this.#greeted;
    if (greeted === undefined) return false;
    greeted.isRepeated ??= isCreated(bytes);
    if (isLast) this.#greeted = undefined;
    return greeted.isRepeated;
  }

  #moved(direction: "up" | "down", bytes: number): void {
    this.#activeAt = this.#options.clock.now();
    this.#options.events.emit("sessionMessage", { direction, dialect: this.#api.dialect });
    if (bytes > sessionBytesMax) this.#refuse(tooMany, closeCodes.policyViolation);
  }

  /** Between two messages of the upstream. */
  #announce(): void {
    if (this.#announcement === undefined || this.#isOver || !this.#format.isBetweenMessages) return;
    this.#socket.sendOwn(this.#announcement);
    this.#announcement = undefined;
  }

  /** The upstream ended the session. */
  #end({ code, reason }: SessionClose): void {
    if (this.#isOver) return;
    this.#over();
    if (code === undefined) this.#socket.close();
    else this.#socket.close(isSendable(code) ? code : closeCodes.internalError, reason);
  }

  /** The session failed with an error that a response with this status would report. */
  #fail(status: number, body: string, code: CloseCode = this.#codeOf(status)): void {
    if (this.#isOver) return;
    this.#over();
    this.#sendError(body);
    this.#socket.close(code, messageOf(body));
  }

  #codeOf(status: number): CloseCode {
    if (this.#isStopping) return closeCodes.goingAway;
    if (status === 503) return this.#sentBytes === 0 ? closeCodes.tryAgainLater : closeCodes.serviceRestart;
    return status >= 500 ? closeCodes.internalError : closeCodes.policyViolation;
  }

  #sendError(body: string): void {
    const message = this.#api.errorMessageOf(body);
    if (message !== undefined && this.#socket.isOpen && this.#format.isBetweenMessages) this.#socket.sendOwn(message);
  }

  /**
   * Ends the session with the gateway's own error. The upstream is not kept until the connection is
   * closed.
   */
  #refuse(failure: Failure, code?: CloseCode): void {
    if (this.#isOver) return;
    const { id } = this.#request;
    this.#options.events.emit("requestRefused", { requestId: id, code: failure.code });
    this.#fail(profiles[this.#api.dialect].statusOf(failure.code), errorBodyOf(this.#api, failure, id), code);
    this.#response.close();
  }

  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      const failure = error instanceof Refusal ? error.failure : failureOf(error as FastifyError);
      if (failure.code === internalFailure.code)
        this.#options.events.emit("fault", { error, requestId: this.#request.id });
      this.#refuse(failure);
    }
  }

  #over(): void {
    this.#isOver = true;
    this.#input.forget();
    this.#socket.keep(0);
  }

  #closed(code: number): void {
    this.#over();
    this.#response.close();
    const { id, caller } = this.#request;
    const { clock, events } = this.#options;
    events.emit("socketClosed", {
      requestId: id,
      keyId: caller.id,
      path: this.#api.path,
      turns: this.#receivedMessages,
      code,
      durationMs: clock.now() - this.#socket.openedAt,
    });
  }
}

/** Codes that may be sent in a close frame: https://www.rfc-editor.org/rfc/rfc6455#section-7.4.2 */
const isSendable = (code: number): boolean =>
  (code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006) || (code >= 3000 && code <= 4999);

const ended = (message: string, upstreamCode: string): Failure => ({ code: "invalid_request", message, upstreamCode });
const expired = (ms: number): Failure =>
  ended(`This session reached its maximum duration of ${ms / 1_000} s.`, "session_expired");
const idle = ended("This session was idle for too long.", "session_idle");
const tooMany = ended("This session sent or received as many bytes as a session may.", "session_too_large");
const noOpening: Failure = { code: "request_timeout", message: "The first message did not arrive in time." };
const tooLarge = (bytesMax: number): Failure => ({
  code: "body_too_large",
  message: `The message is larger than ${bytesMax} bytes.`,
});
