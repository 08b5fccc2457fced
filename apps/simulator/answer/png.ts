/**
 * Makes a small PNG (W3C PNG specification, third edition) of two colours, the same for the same
 * seed.
 */
import { crc32, deflateSync } from "node:zlib";

export interface Picture {
  width: number;
  height: number;
  /** Determines the colours and the pattern. */
  seed: number;
  /** Minimum size of the file in bytes, reached by a private chunk that decoders skip. */
  bytesMin: number;
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const chunkOverhead = 12;

export function pngOf({ width, height, seed, bytesMin }: Picture): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([1, 3, 0, 0, 0], 8);
  const colour = seed & 0xffffff;
  const palette = Buffer.alloc(6);
  palette.writeUIntBE(colour, 0, 3);
  palette.writeUIntBE(colour ^ 0xffffff, 3, 3);
  const tile = 8 << (seed % 3);
  const row = Buffer.alloc(1 + Math.ceil(width / 8));
  for (let x = 0; x < width; x++)
    if (Math.floor(x / tile) % 2 === 1) row[1 + (x >> 3)] = (row[1 + (x >> 3)] ?? 0) | (0x80 >> (x & 7));
  const inverted = Buffer.from(row.map((byte, index) => (index === 0 ? 0 : byte ^ 0xff)));
  const rows = Array.from({ length: height }, (_, y) => (Math.floor(y / tile) % 2 === 0 ? row : inverted));
  const parts = [
    signature,
    chunk("IHDR", header),
    chunk("PLTE", palette),
    chunk("IDAT", deflateSync(Buffer.concat(rows))),
    chunk("IEND", Buffer.alloc(0)),
  ];
  const missing = bytesMin - parts.reduce((sum, part) => sum + part.length, 0);
  if (missing > 0) parts.splice(3, 0, chunk("paDd", Buffer.alloc(Math.max(0, missing - chunkOverhead), seed & 0xff)));
  return Buffer.concat(parts);
}

function chunk(type: string, data: Buffer): Buffer {
  const part = Buffer.alloc(chunkOverhead + data.length);
  part.writeUInt32BE(data.length, 0);
  part.write(type, 4, "latin1");
  data.copy(part, 8);
  part.writeUInt32BE(crc32(part.subarray(4, 8 + data.length)), 8 + data.length);
  return part;
}
