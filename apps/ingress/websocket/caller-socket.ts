/**
 * A caller's WebSocket and its bounds: arriving frames count as request bodies, leaving frames as
 * unread responses, and a connection that is dead or sends too slowly is closed.
 */

import type { WebSocket } from "@fastify/websocket";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import type { Clock } from "#service/clock.ts";
import { socketFullBytes, socketPendingBytesMax } from "../common/bounds.ts";
import type { IngressConfig } from "../common/config.ts";
import { tooSlow } from "../common/failures.ts";
import type { RequestBodies } from "../server/request-bodies.ts";
import type { Unread, UnreadAnswers } from "../server/unread.ts";
import { UploadPace } from "../server/upload-pace.ts";

/**
 * Bytes of a client's control frame besides its payload:
 * https://www.rfc-editor.org/rfc/rfc6455#section-5.2
 */
const controlBytes = 6;
/** https://www.rfc-editor.org/rfc/rfc6455#section-5.5 */
const closeReasonBytesMax = 123;
/**
 * https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1, https://www.iana.org/assignments/websocket
 */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  unsupportedData: 1003,
  policyViolation: 1008,
  tooLarge: 1009,
  internalError: 1011,
  serviceRestart: 1012,
  tryAgainLater: 1013,
} as const;
export type CloseCode = (typeof closeCodes)[keyof typeof closeCodes];

export interface CallerSocketOptions {
  config: IngressConfig;
  clock: Clock;
  bodies: RequestBodies;
  /** Bytes of responses that callers have not taken. */
  unread: UnreadAnswers;
}

export type MessageKind = "text" | "binary";

interface CallerSocketPort {
  message(bytes: Buffer, kind: MessageKind): void;
  /** A bound is broken: report the failure and close the connection. */
  broken(code: CloseCode, failure: Failure): void;
  /** The operating system has a frame. */
  sent(): void;
  closed(code: number): void;
}

export class CallerSocket {
  readonly openedAt: number;
  readonly #socket: WebSocket;
  readonly #request: FastifyRequest;
  readonly #options: CallerSocketOptions;
  readonly #port: CallerSocketPort;
  readonly #unread: Unread;
  #pingedAt: number;
  /** Bytes were received or sent since the last ping. */
  #moved = true;
  /** The frame that is arriving: its bytes so far, its beginning, and its pace. */
  #arrivingBytes = 0;
  #arrivingSince = 0;
  #pace: UploadPace | undefined;
  #keptBytes = 0;
  #pendingBytes = 0;
  #isPaused = false;

  constructor(socket: WebSocket, request: FastifyRequest, options: CallerSocketOptions, port: CallerSocketPort) {
    const now = options.clock.now();
    this.#socket = socket;
    this.#request = request;
    this.#options = options;
    this.#port = port;
    this.#unread = options.unread.of(request.caller.id, {
      bytes: () => socket.bufferedAmount,
      cut: () => this.terminate(),
    });
    this.openedAt = now;
    this.#pingedAt = now;
    request.raw.socket.prependListener("data", ({ length }: Buffer) => this.#arrive(length));
    socket.on("message", (bytes: Buffer, isBinary: boolean) => {
      if (!this.isOpen) return;
      this.#arrivingBytes = 0;
      port.message(bytes, isBinary ? "binary" : "text");
    });
    socket.on("pong", (payload: Buffer) => this.#arrive(-controlBytes - payload.length));
    socket.on("ping", (payload: Buffer) => {
      this.#arrive(-controlBytes - payload.length);
      if (!this.isFull) socket.pong(payload);
    });
    socket.once("close", (code: number) => {
      port.closed(code);
      this.#unread.end();
    });
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  /** The caller has not read as much as it should have before it gets more. */
  get isFull(): boolean {
    return this.#socket.bufferedAmount > socketFullBytes;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get hasUnsent(): boolean {
    return this.#socket.bufferedAmount > 0;
  }

  /** Checks the time limits. Call it about once a second. */
  tick(now: number): void {
    const { config } = this.#options;
    if (!this.isOpen) return;
    if (this.#arrivingBytes > 0 && !this.#isPaused && now - this.#arrivingSince > config.requestTimeoutMs)
      this.#port.broken(closeCodes.policyViolation, {
        code: "request_timeout",
        message: "The frame did not arrive in time.",
      });
    else if (this.#isTooSlow(now)) this.#port.broken(closeCodes.policyViolation, tooSlow(config));
    else if (now - this.#pingedAt >= config.socketPingMs) {
      // A paused socket does not see its pongs.
      if (this.#moved || this.#isPaused) this.#socket.ping();
      else this.terminate();
      this.#moved = false;
      this.#pingedAt = now;
    }
  }

  /** While the socket is paused, its sender cannot be too slow. */
  #isTooSlow(now: number): boolean {
    if (this.#arrivingBytes === 0 || this.#isPaused) this.#pace = undefined;
    else this.#pace ??= new UploadPace(this.#options.config, this.#arrivingBytes, now);
    return this.#pace?.isTooSlow(this.#arrivingBytes, now) === true;
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#arrivingSince = this.#options.clock.now();
    this.#socket.resume();
  }

  /** These bytes of messages that arrived are still in memory. */
  keep(bytes: number): void {
    this.#keptBytes = bytes;
    this.#request.bodyClaim.force(bytes + this.#arrivingBytes);
  }

  /**
   * Sends a frame, or a fragment of a message (`fin` is false for all but the last). `sent` is
   * called when the operating system has it; never if the connection breaks before.
   */
  send(frame: Buffer, sent: () => void, { binary = false, fin = true } = {}): void {
    this.#together();
    this.#unread.wrote();
    this.#socket.send(this.#unread.isWaiting ? Buffer.from(frame) : frame, { binary, fin }, (error) => {
      if (error) return;
      this.#moved = true;
      sent();
      this.#port.sent();
    });
  }

  /** Sends a frame that the gateway itself wrote. */
  sendOwn(frame: Buffer): void {
    if (this.#pendingBytes > socketPendingBytesMax) {
      this.terminate();
      return;
    }
    this.#pendingBytes += frame.length;
    this.send(frame, () => {
      this.#pendingBytes -= frame.length;
    });
  }

  /** The rest of an arriving frame is not read. `reason` is cut to what a close frame may have. */
  close(code?: number, reason = ""): void {
    this.#socket.close(code, textWithin(reason, closeReasonBytesMax));
    if (this.#arrivingBytes > 0) this.#socket.pause();
    else if (this.#isPaused) this.resume();
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /**
   * Counts bytes of a frame as they arrive. A negative number takes back bytes that belonged to a
   * control frame.
   */
  #arrive(bytes: number): void {
    this.#moved = true;
    if (this.#arrivingBytes === 0) {
      this.#arrivingSince = this.#options.clock.now();
      this.#pace = undefined;
    }
    this.#arrivingBytes = Math.max(0, this.#arrivingBytes + bytes);
    const refusal = this.#options.bodies.reserve(this.#request, this.#keptBytes + this.#arrivingBytes);
    if (refusal !== undefined) this.#port.broken(closeCodes.tryAgainLater, refusal.failure);
    if (this.#arrivingBytes === 0) this.#request.bodyClaim.hold(this.#keptBytes);
  }

  /** Makes all frames of one turn of the event loop leave in one write. */
  #together(): void {
    const { socket } = this.#request.raw;
    if (socket.writableCorked > 0) return;
    socket.cork();
    process.nextTick(() => socket.uncork());
  }
}

/** The beginning of a text that takes at most this many bytes. */
function textWithin(text: string, bytesMax: number): string {
  let cut = text;
  while (Buffer.byteLength(cut) > bytesMax) cut = cut.slice(0, -1);
  return cut;
}
