/**
 * The answer of a turn or a session on a WebSocket, in place of an HTTP response. Its frames are
 * those of a format: server-sent events or the messages of a session.
 */

import { isUtf8 } from "node:buffer";
import type { OutgoingHttpHeaders } from "node:http";
import { internalFailure } from "#dialects/errors.ts";
import { eventTypeOf } from "#dialects/openai-responses/event-type.ts";
import { openaiResponsesProfile } from "#dialects/openai-responses/profile.ts";
import { decodeClose, type MessageChunk, MessageReader, type SessionClose } from "#relay/session-messages.ts";
import { type SseEvent, SseReader } from "#wire/sse.ts";
import { socketEventBytesMax } from "../common/bounds.ts";
import { errorFrameOf, withStreamId } from "../request/socket-frame.ts";
import { type AnswerResponse, ResponseEvents } from "./response.ts";

interface SocketHead {
  status: number;
  headers: OutgoingHttpHeaders;
}

/** How an answer becomes frames. */
export interface SocketFormat {
  /** Sends the frames that these bytes complete. */
  push(bytes: Buffer): void;
  /**
   * Sends the end; an error has a status of 400 or above, and this body. Calls `sent` when the
   * operating system has the last frame, or never if the format's owner closes the response.
   */
  end(head: SocketHead, body: string, sent: () => void): void;
}

export interface SocketPort {
  /** The caller has too many unread bytes to receive more. */
  isFull(): boolean;
  terminate(): void;
}

export class SocketResponse extends ResponseEvents implements AnswerResponse {
  /** A frame can report any status at any time. */
  readonly headersSent = false;
  readonly #format: SocketFormat;
  readonly #port: SocketPort;
  #head: SocketHead = { status: 200, headers: {} };
  #isBlocked = false;
  #hasEnded = false;

  constructor(format: SocketFormat, port: SocketPort) {
    super();
    this.#format = format;
    this.#port = port;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): void {
    this.#head = { status, headers };
  }

  write(chunk: string | Buffer): boolean {
    if (this.#hasEnded) return true;
    this.#format.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
    this.#isBlocked ||= this.#port.isFull();
    return !this.#isBlocked;
  }

  end(chunk: string | Buffer = ""): void {
    if (this.#hasEnded) return;
    if (this.#head.status < 400) this.write(chunk);
    this.#hasEnded = true;
    this.#format.end(this.#head, chunk.toString(), () => this.close());
  }

  destroy(): void {
    this.#port.terminate();
  }

  /** The caller has read the bytes that were sent. */
  override drained(): void {
    if (!this.#isBlocked) return;
    this.#isBlocked = false;
    super.drained();
  }

  /** All frames were sent, or the connection is gone. */
  override close(): void {
    this.#hasEnded = true;
    super.close();
  }
}

const endings = ["response.completed", "response.incomplete"];

/** The connection of a turn. */
export interface TurnPort {
  readonly streamId: string | undefined;
  /**
   * Calls `sent` when the operating system has the frame; never if the connection breaks before.
   */
  send(frame: Buffer, sent: () => void): void;
  /** An event is sent; the final one is reported once it is certain. */
  passed(type: string | undefined, data: Buffer): void;
  /** The last frame was sent. */
  over(status: number): void;
}

/**
 * Each server-sent event of a turn becomes a frame. It ends with exactly one final frame, which is
 * sent only when nothing can follow: callers take every later frame as part of their next turn.
 */
export class TurnFormat implements SocketFormat {
  readonly #port: TurnPort;
  readonly #reader = new SseReader(socketEventBytesMax);
  #ending: SseEvent | undefined;

  constructor(port: TurnPort) {
    this.#port = port;
  }

  push(bytes: Buffer): void {
    for (const event of this.#reader.push(bytes)) {
      const type = eventTypeOf(event);
      if (type !== undefined && endings.includes(type)) this.#ending = { ...event, event: type };
      else this.#send(type, event.data, () => undefined);
    }
  }

  end({ status, headers }: SocketHead, body: string, sent: () => void): void {
    const fail = (failedStatus: number, errorBody: string) => {
      this.#port.send(errorFrameOf(failedStatus, headers, errorBody, this.#port.streamId), sent);
      this.#port.over(failedStatus);
    };
    const { statusOf, errorBodyOf } = openaiResponsesProfile;
    if (status >= 400) fail(status, body);
    else if (this.#ending === undefined) fail(statusOf(internalFailure.code), errorBodyOf(internalFailure, ""));
    else {
      this.#send(this.#ending.event, this.#ending.data, sent);
      this.#port.over(status);
    }
  }

  /** Replaces invalid UTF-8, for which callers would close the connection. */
  #send(type: string | undefined, data: Buffer, sent: () => void): void {
    this.#port.passed(type, data);
    this.#port.send(withStreamId(isUtf8(data) ? data : Buffer.from(data.toString("utf8")), this.#port.streamId), sent);
  }
}

export interface SessionFormatPort {
  /** Sends a fragment to the caller. */
  send(chunk: MessageChunk): void;
  /** The session is over: the upstream ended it, or it failed with an error that has this body. */
  ended(end: SessionClose | { status: number; body: string }): void;
}

/** Each message of a session's upstream is sent in fragments if it does not come at once. */
export class SessionFormat implements SocketFormat {
  readonly #port: SessionFormatPort;
  readonly #reader = new MessageReader();
  #close: SessionClose = { code: undefined, reason: "" };

  constructor(port: SessionFormatPort) {
    this.#port = port;
  }

  /** Whether a message of the gateway's own may be sent now. */
  get isBetweenMessages(): boolean {
    return this.#reader.isBetweenMessages;
  }

  push(bytes: Buffer): void {
    for (const chunk of this.#reader.push(bytes))
      if (chunk.kind === "close") this.#close = decodeClose(chunk.bytes);
      else this.#port.send(chunk);
  }

  end({ status }: SocketHead, body: string): void {
    this.#port.ended(status >= 400 ? { status, body } : this.#close);
  }
}
