/**
 * The upstream's side of a session, in place of an HTTP response: it writes each message to the
 * caller's socket, in fragments if it does not come at once.
 */
import { EventEmitter } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";
import { decodeClose, type MessageChunk, MessageReader, type SessionClose } from "#relay/session-messages.ts";
import type { AnswerResponse } from "./generation-response.ts";

export interface SessionResponsePort {
  /** Sends a fragment to the caller. */
  send(chunk: MessageChunk): void;
  /** The caller has too many unread bytes to receive more. */
  isFull(): boolean;
  /** The session is over: the upstream ended it, or it failed with an error that has this body. */
  ended(end: SessionClose | { status: number; body: string }): void;
  terminate(): void;
}

export class SessionResponse implements AnswerResponse {
  /** A session can report an error at any time. */
  readonly headersSent = false;
  closed = false;
  readonly #port: SessionResponsePort;
  readonly #reader = new MessageReader();
  readonly #emitter = new EventEmitter();
  #status = 200;
  #close: SessionClose = { code: undefined, reason: "" };
  #isBlocked = false;
  #isEnded = false;

  constructor(port: SessionResponsePort) {
    this.#port = port;
  }

  /** Whether a message of the gateway's own may be sent now. */
  get isBetweenMessages(): boolean {
    return this.#reader.isBetweenMessages;
  }

  writeHead(status: number, _headers: OutgoingHttpHeaders): this {
    this.#status = status;
    return this;
  }

  write(bytes: string | Buffer): boolean {
    if (this.#isEnded) return true;
    for (const chunk of this.#reader.push(bytes as Buffer))
      if (chunk.kind === "close") this.#close = decodeClose(chunk.bytes);
      else this.#port.send(chunk);
    this.#isBlocked ||= this.#port.isFull();
    return !this.#isBlocked;
  }

  end(chunk: string | Buffer = ""): this {
    if (this.#isEnded) return this;
    this.#isEnded = true;
    this.#port.ended(this.#status >= 400 ? { status: this.#status, body: chunk.toString() } : this.#close);
    return this;
  }

  destroy(): this {
    this.#port.terminate();
    return this;
  }

  once(event: "close" | "drain", listener: () => void): this {
    this.#emitter.once(event, listener);
    return this;
  }

  /** The caller has read the bytes that were sent. */
  drained(): void {
    if (!this.#isBlocked) return;
    this.#isBlocked = false;
    this.#emitter.emit("drain");
  }

  /** The connection is closed. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#isEnded = true;
    this.#emitter.emit("close");
  }
}
