/**
 * The messages of a session as a stream of bytes, in both directions: the content of its `data` and
 * `input` frames. A frame may end anywhere.
 *
 *     message  part+               every part but the last has `more` set
 *     part     kind:u8 length:u32 bytes
 */

const partKinds = { text: 1, binary: 2, close: 3, model: 4 } as const;
const more = 0x80;
const partHeadBytes = 5;
/** Bytes of a part that is delivered whole: a close code and its reason. */
const wholePartBytesMax = 256;

/**
 * `text` and `binary`: of a WebSocket message. `close`: the connection was closed. `model`: stands
 * for the model's name at the upstream, as JSON.
 */
export type MessagePartKind = keyof typeof partKinds;

export interface MessagePart {
  kind: MessagePartKind;
  bytes: Buffer;
}

/** Some bytes of a message. */
export interface MessageChunk extends MessagePart {
  /** The message is complete. */
  isLast: boolean;
}

const kindNames = new Map<number, MessagePartKind>(
  (Object.keys(partKinds) as MessagePartKind[]).map((kind) => [partKinds[kind], kind]),
);

/** One message, as buffers to be sent one after another. */
export function encodeMessage(parts: readonly MessagePart[]): Buffer[] {
  return parts.flatMap(({ kind, bytes }, index) => {
    const head = Buffer.allocUnsafe(partHeadBytes);
    head[0] = partKinds[kind] | (index < parts.length - 1 ? more : 0);
    head.writeUInt32LE(bytes.length, 1);
    return [head, bytes];
  });
}

/**
 * Why a connection was closed: https://www.rfc-editor.org/rfc/rfc6455#section-7.4. `code` is
 * undefined if none was given.
 */
export interface SessionClose {
  code: number | undefined;
  reason: string;
}

/** The code that a WebSocket reports for a close frame without one. */
const noCode = 1005;

export function encodeClose({ code = noCode, reason }: SessionClose): Buffer {
  const bytes = Buffer.alloc(2 + Buffer.byteLength(reason));
  bytes.writeUInt16LE(code);
  bytes.write(reason, 2);
  return bytes;
}

export function decodeClose(bytes: Buffer): SessionClose {
  const code = bytes.length < 2 ? noCode : bytes.readUInt16LE();
  return { code: code === noCode ? undefined : code, reason: bytes.toString("utf8", 2) };
}

/** Reads the messages from a stream of bytes. */
export class MessageReader {
  #head: Buffer = Buffer.alloc(0);
  #kind: MessagePartKind = "text";
  #hasMore = false;
  /** Bytes of the current part that did not arrive yet; -1 while its head is incomplete. */
  #left = -1;
  /** The bytes of a part that is delivered whole. */
  #gathered: Buffer = Buffer.alloc(0);
  #isBetween = true;

  /** Whether the bytes so far end with a whole message. */
  get isBetweenMessages(): boolean {
    return this.#isBetween;
  }

  /**
   * The chunks in these bytes. They share the memory of `bytes`. Throws for bytes that are no
   * messages.
   */
  push(bytes: Buffer): MessageChunk[] {
    const chunks: MessageChunk[] = [];
    let at = 0;
    while (at < bytes.length) {
      if (this.#left < 0) {
        const head = Buffer.concat([this.#head, bytes.subarray(at, at + partHeadBytes - this.#head.length)]);
        at += head.length - this.#head.length;
        this.#head = head;
        if (head.length < partHeadBytes) break;
        this.#begin(head);
      }
      const taken = bytes.subarray(at, at + this.#left);
      at += taken.length;
      this.#left -= taken.length;
      const chunk = this.#chunkOf(taken);
      if (chunk !== undefined) chunks.push(chunk);
      if (this.#left === 0) this.#left = -1;
    }
    return chunks;
  }

  #begin(head: Buffer): void {
    const kind = kindNames.get((head[0] as number) & ~more);
    const length = head.readUInt32LE(1);
    const isWhole = kind === "close" || kind === "model";
    if (kind === undefined || (isWhole && length > wholePartBytesMax)) throw new Error("these bytes are no messages");
    this.#kind = kind;
    this.#hasMore = ((head[0] as number) & more) !== 0;
    this.#left = length;
    this.#head = Buffer.alloc(0);
    this.#gathered = Buffer.alloc(0);
    this.#isBetween = false;
  }

  #chunkOf(taken: Buffer): MessageChunk | undefined {
    const kind = this.#kind;
    const isWhole = kind === "close" || kind === "model";
    if (isWhole) this.#gathered = Buffer.concat([this.#gathered, taken]);
    if (this.#left > 0 && (isWhole || taken.length === 0)) return undefined;
    const isLast = this.#left === 0 && !this.#hasMore;
    this.#isBetween = isLast;
    return { kind, bytes: isWhole ? this.#gathered : taken, isLast };
  }
}
