/**
 * The bytes of a stream; undefined if there are more than `bytesMax`, and the stream is then
 * destroyed. Rejects when the stream fails.
 */
export async function boundedBytes(stream: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes > bytesMax) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}
