/**
 * What a mailbox carries: envelopes of frames, binary, little-endian.
 *
 *     envelope  version:u8  senderLength:u8  sender:ascii  frame*
 *     frame     kind:u8  number:u32  attempt:u16  seq:u32  length:u32  payload
 *
 * `number` is the generation's number at its owner; with the owner's mailbox it names a generation.
 */
export const frameKinds = {
  /** Worker → owner. Sequenced: they count up from 0 in `seq`, arrive in order or not at all, and are resent on demand. */
  accept: 1,
  head: 2,
  data: 3,
  end: 4,
  fail: 5,
  /** Worker → owner: I do not hold this attempt (any more). */
  gone: 6,
  /** Worker → owner, with a heartbeat: nothing was sent since the last one, `seq` is the last frame's. */
  quiet: 7,
  /** Sequenced like those above: what was produced so far. */
  usage: 8,
  /** Owner → worker: this attempt is yours. */
  go: 16,
  /** Owner → worker: all before `seq` arrived; the payload (u32) says up to where the caller took it. */
  ack: 17,
  /** Owner → worker: resend from `seq` on. */
  missing: 18,
  /** Owner → worker: stop and forget. Payload u8: 1 = settle what was produced, 0 = this attempt does not count. */
  cancel: 19,
  /** Owner → worker: all of it arrived; settle and forget. */
  done: 20,
} as const;

export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

export interface Frame {
  kind: FrameKind;
  number: number;
  attempt: number;
  seq: number;
  payload: Buffer;
}

/** Payload of `accept`: does the worker wait for `go` before it begins, and how many places does it have free on this queue? */
export interface Accept {
  waits: boolean;
  /** 65,535 at most. */
  freeSlots: number;
}

export function encodeAccept({ waits, freeSlots }: Accept): Buffer {
  const payload = Buffer.allocUnsafe(3);
  payload[0] = waits ? 1 : 0;
  payload.writeUInt16LE(Math.min(freeSlots, 0xffff), 1);
  return payload;
}

/** Undefined for another payload. */
export const decodeAccept = (payload: Buffer): Accept | undefined =>
  payload.length === 3 ? { waits: payload[0] === 1, freeSlots: payload.readUInt16LE(1) } : undefined;

export const noPayload: Buffer = Buffer.alloc(0);
const version = 1;
const frameHeadBytes = 15;

export const frameBytesOf = (frame: Frame): number => frameHeadBytes + frame.payload.length;

/** One envelope of all the frames given. `sender` is ASCII, at most 255 bytes. */
export function encodeEnvelope(sender: string, frames: readonly Frame[]): Buffer {
  let length = 2 + sender.length;
  for (const frame of frames) length += frameBytesOf(frame);
  const bytes = Buffer.allocUnsafe(length);
  bytes[0] = version;
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

/** Undefined for bytes that are no envelope of this version. Payloads share the envelope's memory. */
export function decodeEnvelope(bytes: Buffer): Envelope | undefined {
  const senderLength = bytes[1];
  if (bytes[0] !== version || senderLength === undefined || bytes.length < 2 + senderLength) return undefined;
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
