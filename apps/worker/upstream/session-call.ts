/** A session with an upstream over a WebSocket: https://www.rfc-editor.org/rfc/rfc6455 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { type ClientOptions, WebSocket } from "ws";
import { sessionMessageBytesMax } from "#relay/bounds.ts";
import { encodeClose, MessageReader } from "#relay/session-messages.ts";
import { joined } from "#wire/joined.ts";
import { gatheredInputBytesMax, sessionCloseMs, sessionPingMs } from "../bounds.ts";
import { PooledCall, type UpstreamHandlers } from "./pooled-call.ts";
import { failureOfTransport, unreachableInTime } from "./transport-failures.ts";

/** The code that a WebSocket reports for a connection without a close frame. */
const noCloseFrame = 1006;

interface SessionOptions {
  /** The model's name at the upstream. */
  model: string;
  /** The first message; empty for none. */
  first: Buffer;
  connectTimeoutMs: number;
}

export class SessionCall extends PooledCall {
  readonly #options: SessionOptions;
  readonly #reader = new MessageReader();
  #socket: WebSocket | undefined;
  /** The response to a handshake that the upstream refused. */
  #refusal: IncomingMessage | undefined;
  #isOpen = true;
  #ping: NodeJS.Timeout | undefined;
  /** Something arrived, or left, since the last ping. */
  #moved = true;
  /** Bytes of the message that is being sent. */
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #isBinary = false;
  /** The message that is being sent has begun. */
  #isWithin = false;

  constructor(handlers: UpstreamHandlers, options: SessionOptions) {
    super(handlers);
    this.#options = options;
  }

  /** Opens the connection. */
  connect(url: URL, options: ClientOptions): void {
    if (this.isOver) {
      this.leave();
      return;
    }
    const socket = new WebSocket(url, {
      ...options,
      perMessageDeflate: false,
      maxPayload: sessionMessageBytesMax,
      finishRequest: (request: ClientRequest) => this.#limitConnect(request),
    });
    this.#socket = socket;
    let error: Error | undefined;
    socket.on("upgrade", ({ headers }) => this.isOver || this.handlers.head(200, headers));
    socket.on("open", () => this.#opened(socket));
    socket.on("message", (bytes: Buffer, isBinary) => {
      this.#moved = true;
      if (!this.isOver) this.handlers.data(bytes, isBinary ? "binary" : "text");
    });
    socket.on("pong", () => {
      this.#moved = true;
    });
    socket.on("unexpected-response", (_request, response) => this.#refused(response));
    socket.on("error", (cause: Error) => {
      error ??= cause;
    });
    socket.on("close", (code: number, reason: Buffer) => {
      if (this.#refusal === undefined) this.#closed(code, reason.toString(), error);
    });
  }

  /**
   * Sends a part of the caller's input. `taken` is called when the operating system has it and all
   * input before it, unless a later part reports that.
   */
  input(payload: Buffer, taken: () => void): void {
    const socket = this.#socket;
    if (socket?.readyState !== WebSocket.OPEN) return;
    for (const { kind, bytes, isLast } of this.#reader.push(payload)) {
      const sent = kind === "model" ? Buffer.from(JSON.stringify(this.#options.model)) : bytes;
      if (kind === "text" || kind === "binary") this.#isBinary = kind === "binary";
      this.#gathered.push(sent);
      this.#gatheredBytes += sent.length;
      if (isLast || this.#gatheredBytes >= gatheredInputBytesMax) this.#sendGathered(socket, isLast, taken);
    }
  }

  override abort(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.release();
    if (this.#refusal !== undefined) this.#refusal.destroy();
    else if (this.#socket === undefined) {
      if (!this.started) this.leave();
    } else {
      const socket = this.#socket;
      socket.resume();
      socket.close();
      setTimeout(() => socket.terminate(), sessionCloseMs).unref();
    }
  }

  override flow(open: boolean): void {
    this.#isOpen = open;
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    if (open) this.#socket.resume();
    else this.#socket.pause();
  }

  protected override release(): void {
    clearInterval(this.#ping);
    this.#gathered = [];
  }

  /** Other time limits are the caller's. */
  #limitConnect(request: ClientRequest): void {
    const timer = setTimeout(() => {
      this.fail(unreachableInTime, "connect timeout");
      request.destroy();
    }, this.#options.connectTimeoutMs);
    const connected = () => clearTimeout(timer);
    request.once("socket", (socket) => socket.once("encrypted" in socket ? "secureConnect" : "connect", connected));
    request.once("close", connected);
    request.end();
  }

  #opened(socket: WebSocket): void {
    if (this.isOver) return;
    if (this.#options.first.length > 0) {
      socket.send(this.#options.first, { binary: false });
      this.handlers.sent?.(this.#options.first, true);
    }
    if (!this.#isOpen) socket.pause();
    this.#ping = setInterval(() => {
      // A paused socket does not see its pongs.
      if (!this.#moved && this.#isOpen) socket.terminate();
      this.#moved = false;
      socket.ping();
    }, sessionPingMs);
  }

  #sendGathered(socket: WebSocket, isLast: boolean, taken: () => void): void {
    const bytes = joined(this.#gathered);
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.handlers.sent?.(bytes, !this.#isWithin);
    this.#isWithin = !isLast;
    socket.send(bytes, { binary: this.#isBinary, fin: isLast }, (error) => {
      if (error) return;
      this.#moved = true;
      taken();
    });
  }

  #refused(response: IncomingMessage): void {
    this.#refusal = response;
    if (!this.isOver) this.handlers.head(response.statusCode ?? 502, response.headers);
    response.on("data", (chunk: Buffer) => this.isOver || this.handlers.data(chunk));
    response.on("end", () => this.#ended());
    response.on("error", (error) => this.fail(failureOfTransport(error), "refused handshake"));
    response.on("close", () => this.leave());
  }

  #closed(code: number, reason: string, error: Error | undefined): void {
    if (code !== noCloseFrame || this.isOver) {
      if (!this.isOver) this.handlers.data(encodeClose({ code, reason }), "close");
      this.#ended();
      return;
    }
    this.fail(failureOfTransport(error ?? new Error("closed")), causeOf(error));
  }

  #ended(): void {
    this.leave();
    this.release();
    if (this.isOver) return;
    this.isOver = true;
    this.handlers.end();
  }
}

const causeOf = (error: Error | undefined): string =>
  (error as NodeJS.ErrnoException | undefined)?.code ?? "no close frame";

/** Where a session of a base URL is: Google serves Live beside the versions of its API. */
export function sessionUrlOf(base: URL, path: string): URL {
  const url = new URL(base);
  url.protocol = base.protocol === "https:" ? "wss:" : "ws:";
  if (path.startsWith("/ws/")) url.pathname = url.pathname.replace(/\/v1(?:alpha|beta1?)?(?=\/ws\/)/, "");
  return url;
}
