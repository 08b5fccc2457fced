/**
 * Decompresses responses of upstreams that ignore `accept-encoding: identity`:
 * https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1
 */
import type { Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";

/**
 * Logarithm of the largest accepted window, 8 MiB: https://www.rfc-editor.org/rfc/rfc9659#section-3
 */
const windowLogMax = 23;

/**
 * A stream that decompresses; undefined for no encoding and for an unknown one. Its reader bounds
 * the output.
 */
export function decompressorOf(encoding: string | string[] | undefined): Transform | undefined {
  if (encoding === undefined) return undefined;
  switch (String(encoding).trim().toLowerCase()) {
    case "gzip":
    case "x-gzip":
      return createGunzip();
    case "deflate":
      return createInflate();
    case "br":
      return createBrotliDecompress();
    case "zstd":
      return createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: windowLogMax } });
    default:
      return undefined;
  }
}
