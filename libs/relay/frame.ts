/**
 * The format of messages between mailboxes: envelopes of frames, binary, little-endian.
 *
 *     envelope  protocol:u8  senderLength:u8  sender:ascii  frame*
 *     frame     kind:u8  number:u32  attempt:u16  seq:u32  length:u32  payload
 *
 * `number` is the generation's number at its owner. Number and mailbox together identify a
 * generation.
 */
import type { Protocols } from "#service/protocol.ts";

export const frameKinds = {
  /** Worker → owner. Sequenced: `seq` counts up from 0; lost frames are resent on demand. */
  accept: 1,
  head: 2,
  data: 3,
  end: 4,
  fail: 5,
  /** Worker → owner: this worker does not run the attempt, or no longer. */
  gone: 6,
  /**
   * Either direction, with a heartbeat: nothing was sent since the last one. `seq` is that of the
   * last sequenced frame.
   */
  quiet: 7,
  /** Worker → owner, sequenced: what the model has produced so far. */
  usage: 8,
  /** Owner → worker: the attempt is bound to you; run it. */
  go: 16,
  /**
   * Either direction: all sequenced frames before `seq` arrived. The payload (u32) is the first seq
   * that the caller has not read, or that the upstream has not taken.
   */
  ack: 17,
  /** Either direction: resend from `seq` on. */
  missing: 18,
  /**
   * Owner → worker: stop and forget. Payload u8: 1 = record what was produced, 0 = this attempt
   * does not count.
   */
  cancel: 19,
  /** Owner → worker: the whole answer arrived; record its usage and forget it. */
  done: 20,
  /** Owner → worker, sequenced on its own: a part of a session's input. */
  input: 21,
} as const;

export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

/**
 * `soon`: it may leave some milliseconds later if an envelope has just left. `idle`: nobody waits
 * for the frame, so it leaves some milliseconds later, or with others.
 */
export type Urgency = "prompt" | "soon" | "idle";

export interface Frame {
  kind: FrameKind;
  number: number;
  attempt: number;
  seq: number;
  payload: Buffer;
}

/**
 * Payload of `accept`: whether the worker waits for `go` before it starts, and how many slots of
 * this queue it has free.
 */
export interface Accept {
  waits: boolean;
  /** At most 65,535. */
  freeSlots: number;
}

export function encodeAccept({ waits, freeSlots }: Accept): Buffer {
  const payload = Buffer.allocUnsafe(3);
  payload[0] = waits ? 1 : 0;
  payload.writeUInt16LE(Math.min(freeSlots, 0xffff), 1);
  return payload;
}

/** Undefined if the payload has another format. */
export const decodeAccept = (payload: Buffer): Accept | undefined =>
  payload.length === 3 ? { waits: payload[0] === 1, freeSlots: payload.readUInt16LE(1) } : undefined;

export const noPayload: Buffer = Buffer.alloc(0);
const frameHeadBytes = 15;

export const frameBytesOf = (frame: Frame): number => frameHeadBytes + frame.payload.length;

/**
 * Encodes all frames as one envelope. `sender` is ASCII, at most 255 bytes; `protocol` is one that
 * the receiver reads. The layout is the same in all protocols so far.
 */
export function encodeEnvelope(sender: string, frames: readonly Frame[], protocol: number): Buffer {
  let length = 2 + sender.length;
  for (const frame of frames) length += frameBytesOf(frame);
  const bytes = Buffer.allocUnsafe(length);
  bytes[0] = protocol;
  bytes[1] = sender.length;
  bytes.write(sender, 2, "latin1");
  let at = 2 + sender.length;
  for (const { kind, number, attempt, seq, payload } of frames) {
    bytes[at] = kind;
    bytes.writeUInt32LE(number, at + 1);
    bytes.writeUInt16LE(attempt, at + 5);
    bytes.writeUInt32LE(seq, at + 7);
    bytes.writeUInt32LE(payload.length, at + 11);
    payload.copy(bytes, at + frameHeadBytes);
    at += frameHeadBytes + payload.length;
  }
  return bytes;
}

export interface Envelope {
  sender: string;
  frames: Frame[];
}

/**
 * Undefined if the bytes are not an envelope of these protocols. Payloads share the memory of
 * `bytes`.
 */
export function decodeEnvelope(bytes: Buffer, { oldest, current }: Protocols): Envelope | undefined {
  const [protocol, senderLength] = bytes;
  if (protocol === undefined || protocol < oldest || protocol > current) return undefined;
  if (senderLength === undefined || bytes.length < 2 + senderLength) return undefined;
  let at = 2 + senderLength;
  const sender = bytes.toString("latin1", 2, at);
  const frames: Frame[] = [];
  while (at < bytes.length) {
    if (at + frameHeadBytes > bytes.length) return undefined;
    const end = at + frameHeadBytes + bytes.readUInt32LE(at + 11);
    if (end > bytes.length) return undefined;
    frames.push({
      kind: bytes[at] as FrameKind,
      number: bytes.readUInt32LE(at + 1),
      attempt: bytes.readUInt16LE(at + 5),
      seq: bytes.readUInt32LE(at + 7),
      payload: bytes.subarray(at + frameHeadBytes, end),
    });
    at = end;
  }
  return { sender, frames };
}
