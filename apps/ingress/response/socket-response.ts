/**
 * The answer of one turn on a WebSocket, in place of an HTTP response: each server-sent event
 * becomes a frame. It ends with exactly one final frame, which is sent only when nothing can
 * follow: callers take every later frame as part of their next turn.
 */

import { isUtf8 } from "node:buffer";
import { EventEmitter } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";
import { internalFailure } from "#dialects/errors.ts";
import { eventTypeOf } from "#dialects/openai-responses/event-type.ts";
import { openaiResponsesProfile } from "#dialects/openai-responses/profile.ts";
import { type SseEvent, SseReader } from "#wire/sse.ts";
import { socketEventBytesMax } from "../common/bounds.ts";
import { errorFrameOf, withStreamId } from "../request/socket-frame.ts";
import type { AnswerResponse } from "./generation-response.ts";

const endings = ["response.completed", "response.incomplete"];

/** The connection of a turn. */
export interface TurnPort {
  readonly streamId: string | undefined;
  /**
   * Calls `sent` when the operating system has the frame; never if the connection breaks before.
   */
  send(frame: Buffer, sent: () => void): void;
  /** The caller has too many unread bytes to receive more. */
  isFull(): boolean;
  /** An event is sent; the final one is reported once it is certain. */
  passed(type: string | undefined, data: Buffer): void;
  /** The last frame was sent. */
  over(status: number): void;
  terminate(): void;
}

export class SocketResponse implements AnswerResponse {
  /** A frame can report any status at any time. */
  readonly headersSent = false;
  closed = false;
  readonly #port: TurnPort;
  readonly #reader = new SseReader(socketEventBytesMax);
  readonly #emitter = new EventEmitter();
  #status = 200;
  #headers: OutgoingHttpHeaders = {};
  #ending: SseEvent | undefined;
  #blocked = false;
  #ended = false;

  constructor(port: TurnPort) {
    this.#port = port;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.#status = status;
    this.#headers = headers;
    return this;
  }

  write(chunk: string | Buffer): boolean {
    if (this.#ended) return true;
    for (const event of this.#reader.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk)) {
      const type = eventTypeOf(event);
      if (type !== undefined && endings.includes(type)) {
        this.#ending = { ...event, event: type };
        continue;
      }
      this.#port.passed(type, event.data);
      this.#send(event.data, () => undefined);
    }
    this.#blocked ||= this.#port.isFull();
    return !this.#blocked;
  }

  end(chunk: string | Buffer = ""): this {
    if (this.#ended) return this;
    if (this.#status < 400) this.write(chunk);
    this.#ended = true;
    const { streamId } = this.#port;
    const last = () => this.close();
    if (this.#status >= 400)
      this.#port.send(errorFrameOf(this.#status, this.#headers, chunk.toString(), streamId), last);
    else if (this.#ending !== undefined) {
      this.#port.passed(this.#ending.event, this.#ending.data);
      this.#send(this.#ending.data, last);
    } else {
      this.#status = openaiResponsesProfile.statusOf(internalFailure.code);
      this.#port.send(
        errorFrameOf(this.#status, this.#headers, openaiResponsesProfile.errorBodyOf(internalFailure, ""), streamId),
        last,
      );
    }
    this.#port.over(this.#status);
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
    if (!this.#blocked) return;
    this.#blocked = false;
    this.#emitter.emit("drain");
  }

  /** All frames were sent, or the connection is gone. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#ended = true;
    this.#emitter.emit("close");
  }

  /** Replaces invalid UTF-8, for which callers would close the connection. */
  #send(data: Buffer, sent: () => void): void {
    this.#port.send(withStreamId(isUtf8(data) ? data : Buffer.from(data.toString("utf8")), this.#port.streamId), sent);
  }
}
