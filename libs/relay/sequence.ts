/**
 * Numbered frames between two processes: answers on their way to an owner, and a session's input on
 * its way to a runner. The sending end keeps each frame until it arrived and closes a window that
 * is full; the receiving end puts the frames in order and acknowledges them. Pure.
 */

import type { RelayBounds } from "./bounds.ts";
import { type Frame, type FrameKind, frameBytesOf, frameKinds, noPayload, type Urgency } from "./frame.ts";

/** Everything on its way to one mailbox. */
export class Outbox<Holder> {
  readonly mailbox: string;
  /** Bytes that did not arrive yet. */
  travellingBytes = 0;
  /** The sequences whose window is closed. */
  readonly closed = new Set<Outgoing<Holder>>();

  constructor(mailbox: string) {
    this.mailbox = mailbox;
  }
}

export interface OutgoingPort<Holder> {
  send(mailbox: string, frame: Frame, urgency?: Urgency): void;
  /** The window is full, or has capacity again (`isOpen`). */
  flow(holder: Holder, window: { isOpen: boolean }): void;
}

interface Sent {
  seq: number;
  bytes: number;
  kind: FrameKind;
  /** Undefined once it arrived. */
  payload: Buffer | undefined;
}

/** The sending end of one attempt's frames. */
export class Outgoing<Holder> {
  /** Bytes that the other end has not taken. */
  bytes = 0;
  readonly #holder: Holder;
  readonly #address: Pick<Frame, "number" | "attempt">;
  readonly #outbox: Outbox<Holder>;
  readonly #limits: RelayBounds;
  readonly #port: OutgoingPort<Holder>;
  /** Frames that the other end has not taken, oldest first. */
  #sent: Sent[] = [];
  #nextSeq = 0;
  /** All frames before this seq arrived. */
  #arrived = 0;
  #isOpen = true;
  #isOver = false;
  /** Nothing was sent since the last heartbeat. */
  #isQuiet = false;

  constructor(
    holder: Holder,
    address: Pick<Frame, "number" | "attempt">,
    { outbox, limits, port }: { outbox: Outbox<Holder>; limits: RelayBounds; port: OutgoingPort<Holder> },
  ) {
    this.#holder = holder;
    this.#address = address;
    this.#outbox = outbox;
    this.#limits = limits;
    this.#port = port;
  }

  /** Whether the other end has every frame. */
  get hasArrived(): boolean {
    return this.#arrived === this.#nextSeq;
  }

  /** Call `regulate` afterwards if more frames may follow. */
  send(kind: FrameKind, payload: Buffer, urgency: Urgency = "prompt"): void {
    const frame = this.#frame(kind, this.#nextSeq++, payload);
    const bytes = frameBytesOf(frame);
    this.#sent.push({ seq: frame.seq, bytes, kind, payload });
    this.bytes += bytes;
    this.#outbox.travellingBytes += bytes;
    this.#isQuiet = false;
    this.#port.send(this.#outbox.mailbox, frame, urgency);
  }

  /** All frames before `arrived` arrived, and those before `taken` were taken. */
  acknowledged(arrived: number, taken: number): void {
    if (arrived > this.#nextSeq || taken > arrived) return;
    if (arrived > this.#arrived) {
      for (const sent of this.#sent) {
        if (sent.seq >= arrived) break;
        if (sent.payload === undefined) continue;
        sent.payload = undefined;
        this.#outbox.travellingBytes -= sent.bytes;
      }
      this.#arrived = arrived;
    }
    let first = 0;
    for (; first < this.#sent.length && (this.#sent[first] as Sent).seq < taken; first++)
      this.bytes -= (this.#sent[first] as Sent).bytes;
    if (first > 0) this.#sent.splice(0, first);
    this.regulate();
    this.#reopen();
  }

  /** Sends the frames from this seq on again, as far as they did not arrive. Returns how many. */
  resend(from: number): number {
    if (from < this.#arrived) return 0;
    let count = 0;
    for (const { seq, kind, payload } of this.#sent) {
      if (seq < from || payload === undefined) continue;
      count++;
      this.#port.send(this.#outbox.mailbox, this.#frame(kind, seq, payload));
    }
    this.#isQuiet = false;
    return count;
  }

  /**
   * Names the last frame if nothing was sent since the last call, so that the other end notices a
   * loss.
   */
  heartbeat(): void {
    if (this.#isQuiet)
      this.#port.send(this.#outbox.mailbox, this.#frame(frameKinds.quiet, this.#nextSeq - 1, noPayload));
    this.#isQuiet = true;
  }

  /** Closes a full window, and opens it when half of it is free and the mailbox has capacity. */
  regulate(): void {
    if (this.#isOver) return;
    const isOpen =
      this.#hasCapacity() && this.bytes < (this.#isOpen ? this.#limits.windowBytes : this.#limits.windowBytes / 2);
    if (isOpen === this.#isOpen) return;
    this.#isOpen = isOpen;
    if (isOpen) this.#outbox.closed.delete(this);
    else this.#outbox.closed.add(this);
    this.#port.flow(this.#holder, { isOpen });
  }

  /** The last frame was sent: the window does not matter any more. */
  end(): void {
    this.#isOver = true;
  }

  /** Nobody needs the frames any more. */
  forget(): void {
    this.end();
    this.#outbox.closed.delete(this);
    for (const { payload, bytes } of this.#sent) if (payload !== undefined) this.#outbox.travellingBytes -= bytes;
    this.#sent = [];
    this.#reopen();
  }

  #frame(kind: FrameKind, seq: number, payload: Buffer): Frame {
    const { number, attempt } = this.#address;
    return { kind, number, attempt, seq, payload };
  }

  #hasCapacity(): boolean {
    return this.#outbox.travellingBytes < this.#limits.mailboxWindowBytes;
  }

  #reopen(): void {
    const { closed } = this.#outbox;
    if (closed.size > 0 && this.#hasCapacity()) for (const other of closed) other.regulate();
  }
}

/** The receiving end of one attempt's frames. */
export class Incoming {
  /** The next expected seq. */
  expected = 0;
  /** A frame arrived since the last heartbeat. */
  heard = false;
  /** The first seq that is not taken. */
  #taken = 0;
  #ackedExpected = 0;
  #ackedTaken = 0;
  /** Frames that are not taken. */
  readonly #untaken: { seq: number; bytes: number }[] = [];
  /** Bytes that were taken since the last acknowledgement. */
  #unackedBytes = 0;
  #missingAskedAt = 0;

  /** Whether this frame is the next one. It is then counted as arrived. */
  accept(seq: number, bytes: number): boolean {
    this.heard = true;
    if (seq !== this.expected) return false;
    this.expected++;
    this.#untaken.push({ seq, bytes });
    return true;
  }

  /** Everything up to and including `seq` was taken. */
  take(seq: number): void {
    if (seq < this.#taken) return;
    this.#taken = seq + 1;
    let first = 0;
    for (; first < this.#untaken.length; first++) {
      const frame = this.#untaken[first] as { seq: number; bytes: number };
      if (frame.seq > seq) break;
      this.#unackedBytes += frame.bytes;
    }
    if (first > 0) this.#untaken.splice(0, first);
  }

  /** Half of the window was taken, so the sender should know it at once. */
  isAckDue({ windowBytes }: RelayBounds): boolean {
    return this.#unackedBytes * 2 >= windowBytes;
  }

  /** Frames arrived since the last acknowledgement. */
  get hasNew(): boolean {
    return this.expected !== this.#ackedExpected;
  }

  /** The sender may not know all that it should. */
  get mayBeUnacked(): boolean {
    return !this.heard || this.hasNew || this.#taken !== this.#ackedTaken;
  }

  /** The payload of an acknowledgement, which is then sent. */
  acknowledgement(): Buffer {
    this.#ackedExpected = this.expected;
    this.#ackedTaken = this.#taken;
    this.#unackedBytes = 0;
    const payload = Buffer.allocUnsafe(4);
    payload.writeUInt32LE(this.#taken);
    return payload;
  }

  /** Whether missing frames are requested now: not again within `missingRetryMs`. */
  asksMissing({ missingRetryMs }: RelayBounds, now: number): boolean {
    if (now - this.#missingAskedAt < missingRetryMs) return false;
    this.#missingAskedAt = now;
    return true;
  }
}
