/**
 * Counts the bytes of responses that wait in this process until callers take them. All API keys
 * share the capacity: a key that gets no more loses the connections whose callers have taken
 * nothing for longest. Bytes that a socket takes at once are not counted.
 */

import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { unreadCheckMs } from "../common/bounds.ts";
import type { Capacity, Claim, Shortage } from "../common/capacity.ts";

interface UnreadPort {
  /** Written bytes that the operating system has not taken. */
  bytes(): number;
  /** Breaks the connection. */
  cut(): void;
}

/**
 * The waiting bytes of one connection. Its writer calls `wrote` for every write, and `end` when the
 * connection or its response is closed.
 */
export class Unread {
  readonly #all: UnreadAnswers;
  readonly number: number;
  readonly key: string;
  readonly port: UnreadPort;
  readonly claim: Claim;
  /** Its bytes are counted at the end of this turn of the event loop. */
  isDue = false;
  isOver = false;

  constructor(all: UnreadAnswers, { number, key, port, claim }: Pick<Unread, "number" | "key" | "port" | "claim">) {
    this.#all = all;
    this.number = number;
    this.key = key;
    this.port = port;
    this.claim = claim;
  }

  /**
   * Bytes wait: a slice that is written now should be copied, so that it does not keep the whole
   * buffer alive.
   */
  get isWaiting(): boolean {
    return this.claim.amount > 0;
  }

  wrote(): void {
    if (!this.isDue) this.#all.wrote(this);
  }

  /** May be called any number of times. */
  end(): void {
    this.#all.end(this);
  }
}

export class UnreadAnswers {
  readonly #capacity: Capacity;
  readonly #onCut: (shortage: Shortage, key: string) => void;
  #due: Unread[] = [];
  /**
   * By key: the connections with waiting bytes, first those whose callers have taken nothing for
   * longest.
   */
  readonly #waiting = new LiveMap<string, LiveMap<number, Unread>>();
  #isChecking = false;
  #number = 0;

  /** `onCut` is called for every connection that is broken, with the shortage and its key. */
  constructor(capacity: Capacity, onCut: (shortage: Shortage, key: string) => void) {
    this.#capacity = capacity;
    this.#onCut = onCut;
  }

  /** The waiting bytes of a response or a WebSocket of this key. */
  of(key: string, port: UnreadPort): Unread {
    return new Unread(this, { number: this.#number++, key, port, claim: this.#capacity.claim(key) });
  }

  /**
   * For Unread. A response gathers all writes of one turn of the event loop, so its bytes are
   * counted at the end of the turn.
   */
  wrote(unread: Unread): void {
    unread.isDue = true;
    if (this.#due.push(unread) === 1) setImmediate(this.#countDue);
  }

  /** For Unread. */
  end(unread: Unread): void {
    unread.isOver = true;
    this.#remove(unread);
    unread.claim.end();
  }

  readonly #countDue = () => {
    const due = this.#due;
    this.#due = [];
    for (const unread of due) {
      unread.isDue = false;
      this.#count(unread);
    }
  };

  readonly #check = () => {
    this.#isChecking = false;
    for (const waiting of this.#waiting.values()) for (const unread of waiting.values()) this.#count(unread);
    this.#checkLater();
  };

  #checkLater(): void {
    if (this.#isChecking || this.#waiting.size === 0) return;
    this.#isChecking = true;
    setTimeout(this.#check, unreadCheckMs).unref();
  }

  #count(unread: Unread): void {
    const { claim, port } = unread;
    if (unread.isOver) return;
    const bytes = port.bytes();
    if (bytes < claim.amount) this.#took(unread, bytes);
    if (bytes <= claim.amount) return;
    const waiting = this.#waitingWith(unread);
    const shortage = claim.hold(bytes);
    if (shortage === undefined) return;
    // The loop ends with this connection, if not before: its bytes have grown.
    for (const other of waiting.values()) {
      const left = other.port.bytes();
      if (left < other.claim.amount) this.#took(other, left);
      else {
        this.end(other);
        other.port.cut();
        this.#onCut(shortage, other.key);
      }
      if (claim.hold(bytes) === undefined) return;
    }
  }

  /** The caller took some bytes and `left` remain: its connection is now the last to be broken. */
  #took(unread: Unread, left: number): void {
    this.#remove(unread);
    unread.claim.hold(left);
    if (left > 0) this.#waitingWith(unread);
  }

  /** The waiting connections of its key, including this one. */
  #waitingWith(unread: Unread): LiveMap<number, Unread> {
    let waiting = this.#waiting.get(unread.key);
    if (waiting === undefined) {
      waiting = new LiveMap();
      this.#waiting.set(unread.key, waiting);
    }
    waiting.set(unread.number, unread);
    this.#checkLater();
    return waiting;
  }

  #remove({ key, number }: Unread): void {
    const waiting = this.#waiting.get(key);
    if (waiting?.delete(number) && waiting.size === 0) this.#waiting.delete(key);
  }
}

/** An HTTP response whose bytes are counted once its caller is known. */
export class CallerResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  unread: Unread | undefined = undefined;
  /** The gateway broke the connection, and not the caller. */
  isBroken = false;

  override write(chunk: unknown, encoding?: unknown, written?: unknown): boolean {
    this.unread?.wrote();
    const bytes = this.unread?.isWaiting && Buffer.isBuffer(chunk) ? Buffer.from(chunk) : chunk;
    return super.write(bytes, encoding as BufferEncoding, written as () => void);
  }

  override end(chunk?: unknown, encoding?: unknown, written?: unknown): this {
    this.unread?.wrote();
    return super.end(chunk, encoding as BufferEncoding, written as () => void);
  }

  override destroy(error?: Error): this {
    this.isBroken = true;
    return super.destroy(error);
  }
}

const checksPerTimeout = 4;

/**
 * Destroys a connection whose peer has taken none of the waiting bytes for `timeoutMs`. A silent
 * model does not count, because no bytes wait then. Node reports a socket without progress between
 * two checks, but not while part of a write makes progress.
 */
export function destroyWhenUnread(response: ServerResponse, socket: Socket, timeoutMs: number, clock: Clock): void {
  const checkMs = timeoutMs / checksPerTimeout;
  let quietMs = 0;
  let taken = 0;
  let checkedAt = 0;
  response.setTimeout(checkMs, () => {
    const now = clock.now();
    const moved = socket.bytesWritten - socket.writableLength !== taken || now - checkedAt > 1.5 * checkMs;
    taken = socket.bytesWritten - socket.writableLength;
    checkedAt = now;
    quietMs = moved ? checkMs : quietMs + checkMs;
    if (socket.writableLength === 0) return;
    if (quietMs >= timeoutMs) socket.destroy();
    else socket.setTimeout(checkMs);
  });
}
