/** Bodies that a route may stop reading. */
import type { Readable } from "node:stream";

/** A request has an answer also where its body is not read to its end. */
export const bodyOf = ({ body }: { body?: unknown }): AsyncIterable<Buffer> =>
  (body as Readable).iterator({ destroyOnReturn: false });
