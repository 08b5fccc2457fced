import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "#service/clock.ts";

const checksPerTimeout = 4;

/**
 * Destroys a connection whose peer has taken none of the waiting bytes for `timeoutMs`. A silent
 * model does not count, because no bytes wait then. Node reports a socket without progress between
 * two checks, but not while part of a write makes progress.
 */
export function destroyWhenUnread(response: ServerResponse, socket: Socket, timeoutMs: number, clock: Clock): void {
  const checkMs = timeoutMs / checksPerTimeout;
  let quietMs = 0;
  let taken = 0;
  let checkedAt = 0;
  response.setTimeout(checkMs, () => {
    const now = clock.now();
    const moved = socket.bytesWritten - socket.writableLength !== taken || now - checkedAt > 1.5 * checkMs;
    taken = socket.bytesWritten - socket.writableLength;
    checkedAt = now;
    quietMs = moved ? checkMs : quietMs + checkMs;
    if (socket.writableLength === 0) return;
    if (quietMs >= timeoutMs) socket.destroy();
    else socket.setTimeout(checkMs);
  });
}
