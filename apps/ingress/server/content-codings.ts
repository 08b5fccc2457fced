/**
 * The content codings in which callers may send a body:
 * https://www.rfc-editor.org/rfc/rfc9110#section-8.4
 */
import { Transform, type TransformCallback } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import type { Failure } from "#dialects/errors.ts";
import { decodedChunkBytes, zstdFramesMax, zstdWindowLog } from "../common/bounds.ts";
import { invalidRequest, Refusal } from "../common/refusal.ts";

type ZlibStream = Transform & { readonly bytesWritten: number };

const options = { chunkSize: decodedChunkBytes };

/**
 * Each decoder works outside of the event loop, and decodes no further while its reader is busy.
 */
const decoders: Record<string, () => ZlibStream> = {
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

const undecodable = invalidRequest(
  "The body could not be decoded: it is not complete, has other bytes behind it, or is not in the coding that its Content-Encoding names.",
);

const tooManyFrames = invalidRequest(`The body could not be decoded: it has more than ${zstdFramesMax} frames.`);

/** The value of `Content-Encoding` for a body that has one; undefined for a body as it is. */
export function codingOf(header: string | undefined): string | undefined {
  const coding = header?.trim().toLowerCase() ?? "";
  return coding === "" || coding === "identity" ? undefined : coding;
}

/**
 * A stream that decodes a whole body, or fails with Refusal; undefined for an unknown coding and
 * for several codings.
 */
export function decoderOf(coding: string): Transform | undefined {
  const create = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  return create && new Decoder({ create, isInFrames: coding === "zstd" });
}

/**
 * A decoder of zlib ends where it finds the end of the coding, and ignores what is behind it. In
 * zstd that is another frame: https://www.rfc-editor.org/rfc/rfc8878#section-3.1
 */
class Decoder extends Transform {
  readonly #create: () => ZlibStream;
  readonly #isInFrames: boolean;
  #frames = 0;
  #current: ZlibStream | undefined;

  constructor({ create, isInFrames }: { create: () => ZlibStream; isInFrames: boolean }) {
    super();
    this.#create = create;
    this.#isInFrames = isInFrames;
  }

  override _transform(chunk: Buffer, encoding: BufferEncoding, done: TransformCallback): void {
    this.#current ??= this.#opened();
    const decoder = this.#current;
    const before = decoder.bytesWritten;
    const ended = () => {
      const rest = chunk.subarray(decoder.bytesWritten - before);
      this.#current = undefined;
      if (!this.#isInFrames) done(new Refusal(undecodable));
      else if (++this.#frames >= zstdFramesMax) done(new Refusal(tooManyFrames));
      else this._transform(rest, encoding, done);
    };
    decoder.once("end", ended);
    decoder.write(chunk, () => {
      if (this.#current !== decoder) return;
      decoder.off("end", ended);
      done();
    });
  }

  override _flush(done: TransformCallback): void {
    if (this.#current === undefined) done();
    else this.#current.once("end", () => done()).end();
  }

  override _read(size: number): void {
    this.#current?.resume();
    super._read(size);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#current?.destroy();
    done(error);
  }

  #opened(): ZlibStream {
    const decoder = this.#create();
    decoder.on("data", (bytes: Buffer) => {
      if (!this.push(bytes)) decoder.pause();
    });
    decoder.once("error", () => this.destroy(new Refusal(undecodable)));
    return decoder;
  }
}
