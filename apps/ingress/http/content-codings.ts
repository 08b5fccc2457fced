/** The content codings in which callers may send a body: https://www.rfc-editor.org/rfc/rfc9110#section-8.4 */
import type { Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import type { Failure } from "#dialects/errors.ts";
import { decodedChunkBytes, zstdWindowLog } from "../bounds.ts";

const options = { chunkSize: decodedChunkBytes };

/** Each decoder works outside of the event loop, and decodes no further while its reader is busy. */
const decoders: Record<string, () => Transform> = {
  gzip: () => createGunzip(options),
  "x-gzip": () => createGunzip(options),
  deflate: () => createInflate(options),
  br: () => createBrotliDecompress(options),
  zstd: () => createZstdDecompress({ ...options, params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLog } }),
};

/** The value of `Accept-Encoding` in a response that refuses a coding. */
export const acceptedCodings = "gzip, deflate, br, zstd";

export const unknownCoding: Failure = {
  code: "unsupported_media_type",
  message: `The body's Content-Encoding is not supported: send one of ${acceptedCodings}, or no Content-Encoding.`,
};

export const undecodable: Failure = {
  code: "invalid_request",
  message: "The body could not be decoded: it is not complete, or not in the coding that its Content-Encoding names.",
};

/** The value of `Content-Encoding` for a body that has one; undefined for a body as it is. */
export function codingOf(header: string | undefined): string | undefined {
  const coding = header?.trim().toLowerCase() ?? "";
  return coding === "" || coding === "identity" ? undefined : coding;
}

/** A stream that decodes a coding; undefined for an unknown coding and for several codings. */
export const decoderOf = (coding: string): Transform | undefined =>
  Object.hasOwn(decoders, coding) ? decoders[coding]?.() : undefined;
