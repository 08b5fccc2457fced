/**
 * Encrypts a stream in chunks, each with AES-256-GCM (NIST SP 800-38D). A key is for one stream.
 * Nonces count the chunks and mark the last one, so chunks cannot be moved, removed or cut off.
 */
import { createCipheriv, createDecipheriv, type KeyObject } from "node:crypto";
import { fileChunkBytes } from "../bounds.ts";

const tagBytes = 16;
const sealedChunkBytes = fileChunkBytes + tagBytes;
const cipher = "aes-256-gcm";

export async function* sealChunks(key: KeyObject, source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let place = 0;
  for await (const { bytes, isLast } of blocksOf(source, fileChunkBytes)) {
    const sealing = createCipheriv(cipher, key, nonceOf(place++, isLast));
    yield Buffer.concat([sealing.update(bytes), sealing.final(), sealing.getAuthTag()]);
  }
}

/** Where the chunk with byte `start` of the stream begins in the sealed one. */
export const sealedStartOf = (start: number): number => Math.floor(start / fileChunkBytes) * sealedChunkBytes;

/**
 * The stream from byte `start` on. `sealed` begins at `sealedStartOf(start)`. Throws for bytes that
 * were changed, or sealed with another key.
 */
export async function* openChunks(
  key: KeyObject,
  sealed: AsyncIterable<Uint8Array>,
  start = 0,
): AsyncGenerator<Buffer> {
  let place = Math.floor(start / fileChunkBytes);
  let skipped = start % fileChunkBytes;
  for await (const { bytes, isLast } of blocksOf(sealed, sealedChunkBytes)) {
    const opening = createDecipheriv(cipher, key, nonceOf(place++, isLast));
    opening.setAuthTag(bytes.subarray(-tagBytes));
    const opened = Buffer.concat([opening.update(bytes.subarray(0, -tagBytes)), opening.final()]);
    yield opened.subarray(skipped);
    skipped = 0;
  }
}

function nonceOf(place: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt8(isLast ? 1 : 0);
  nonce.writeUInt32BE(place, 8);
  return nonce;
}

/** Blocks of this size; the last one is smaller or equal, and empty only for an empty stream. */
async function* blocksOf(
  source: AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<{ bytes: Buffer; isLast: boolean }> {
  let waiting: Uint8Array[] = [];
  let length = 0;
  for await (const bytes of source) {
    waiting.push(bytes);
    length += bytes.length;
    if (length <= size) continue;
    const joined = Buffer.concat(waiting);
    let at = 0;
    for (; joined.length - at > size; at += size) yield { bytes: joined.subarray(at, at + size), isLast: false };
    waiting = [joined.subarray(at)];
    length = joined.length - at;
  }
  yield { bytes: Buffer.concat(waiting), isLast: true };
}
