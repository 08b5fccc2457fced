/**
 * Connections of HTTP/1.1 as undici needs them. It takes an informational response that nobody
 * asked for as an error (https://www.rfc-editor.org/rfc/rfc9110#section-15.2 allows any number of
 * them), does not tell whether a connection that broke had served a request before, and reads each
 * chunk as it arrives, which a busy process has no time for.
 */
import type { Socket } from "node:net";
import { gatherBytesMax, responseHeadBytesMax } from "../bounds.ts";
import type { PacedStream, StreamPace } from "./stream-pace.ts";

/**
 * Errors of connections that broke before any byte of the response, and had served another request
 * before.
 */
const ofReused = new WeakSet<Error>();

/** True if the upstream closed a kept connection instead of reading the request, or as it did. */
export const isOfReused = (error: Error): boolean => ofReused.has(error);

/** Undici writes the head of a request as one text. */
const requestStart = /^[A-Z]+ \//;
const informational = /^HTTP\/1\.[01] 1(?!01)\d\d/;
/** A text that may become the beginning of an informational response. */
const mayBeInformational = (text: string): boolean => "HTTP/1.".startsWith(text.slice(0, 7)) && text.length < 12;
const headEnd = "\r\n\r\n";

/** A socket that is read by its event `readable` has no public way to stop below that. */
interface ReadHandle {
  reading: boolean;
  readStop(): void;
}
const handleOf = (socket: Socket) => (socket as { _handle?: ReadHandle | null })._handle;

/**
 * Hides informational responses from the reader of a socket, notes errors of a reused one, and
 * reads at the pace: the first bytes of a response at once, then what the system's buffer has
 * gathered in each interval.
 */
export function watchSocket(socket: Socket, pace: StreamPace): void {
  const [write, read] = [socket.write, socket.read];
  let requests = 0;
  /** No byte of the final response has arrived. */
  let isAwaited = false;
  /** It was read in this turn, or is not read until its interval is over. */
  let isPaced = false;
  let isStopped = false;
  let pendingBytes: Buffer | undefined;
  const stream: PacedStream = {
    stop: () => {
      const handle = handleOf(socket);
      if (!isPaced || handle?.reading !== true) return;
      isStopped = true;
      handle.reading = false;
      handle.readStop();
    },
    start: () => {
      isPaced = false;
      if (!isStopped) return;
      isStopped = false;
      if (!socket.destroyed) socket._read(0);
    },
  };
  const watchedWrite = function (this: Socket, ...args: unknown[]) {
    if (typeof args[0] === "string" && requestStart.test(args[0])) {
      requests++;
      isAwaited = true;
      stream.start();
    }
    return (write as (...args: unknown[]) => boolean).apply(this, args);
  };
  const watchedRead = function (this: Socket, size?: number) {
    const chunk: unknown = read.call(this, size);
    if (!Buffer.isBuffer(chunk)) return chunk;
    if (!isAwaited) {
      if (pace.intervalMs > 0 && !isPaced && chunk.length < gatherBytesMax) {
        isPaced = true;
        pace.wasRead(stream);
      }
      return chunk;
    }
    const bytes = withoutInformational(pendingBytes === undefined ? chunk : Buffer.concat([pendingBytes, chunk]));
    pendingBytes = bytes.isWhole ? undefined : bytes.rest;
    if (!bytes.isWhole) return null;
    isAwaited = false;
    return bytes.rest;
  };
  Object.assign(socket, { write: watchedWrite, read: watchedRead });
  socket.prependListener("error", (error) => {
    if (isAwaited && requests > 1) ofReused.add(error);
  });
}

/** The bytes after the informational responses; not whole while they may still be one. */
function withoutInformational(bytes: Buffer): { isWhole: boolean; rest: Buffer } {
  let rest = bytes;
  for (;;) {
    const start = rest.toString("latin1", 0, 12);
    if (mayBeInformational(start)) return { isWhole: false, rest };
    if (!informational.test(start)) return { isWhole: true, rest };
    const end = rest.indexOf(headEnd);
    if (end < 0) return { isWhole: rest.length > responseHeadBytesMax, rest };
    rest = rest.subarray(end + headEnd.length);
  }
}
