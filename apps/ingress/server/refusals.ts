/** Sends errors in the caller's dialect, and decides what happens to the connection after one. */

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { profiles } from "#dialects/profiles.ts";
import { upstreamRequestIdHeader } from "#relay/job.ts";
import { discardedBytesMax, headerBytesMax, refusedMs } from "../common/bounds.ts";
import { dialectOf, isOllamaPath, requestIdHeadersOf } from "../common/endpoints.ts";
import { tooLate } from "../common/failures.ts";
import { invalidRequest } from "../common/refusal.ts";

/** The headers of an error response. */
export function failureHeadersOf({
  code,
  retryAfterSeconds,
  upstreamRequestId,
  isPaid,
}: Failure): Record<string, string> {
  // A request that an operator stopped would run again at once.
  const isFinal =
    code === "budget_exhausted" || isPaid === true || (code === "stopped" && retryAfterSeconds === undefined);
  return {
    "content-type": "application/json",
    ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
    ...(upstreamRequestId !== undefined && { [upstreamRequestIdHeader]: upstreamRequestId }),
    ...(isFinal && { "x-should-retry": "false" }),
  };
}

const isUnidentified = ({ code }: Failure) => ["missing_key", "invalid_key", "invalid_token"].includes(code);

/** An error in Ollama's format. */
export const ollamaErrorOf = (message: string): string => JSON.stringify({ error: message });

/**
 * True for a body in a transfer coding that the sender and a proxy may read differently:
 * https://www.rfc-editor.org/rfc/rfc9112#section-6.1
 */
export const hasUnknownCoding = ({ headers }: FastifyRequest): boolean =>
  (headers["transfer-encoding"] ?? "chunked").toLowerCase() !== "chunked";

/**
 * Sends the error response. The connection is kept if the rest of the request can be read safely,
 * unless `draining` is aborted.
 */
export function sendFailure(
  failure: Failure,
  request: FastifyRequest,
  reply: FastifyReply,
  draining: AbortSignal,
): FastifyReply {
  const mustClose = draining.aborted || hasUnknownCoding(request) || failure.code === "request_timeout";
  if (mustClose || Number(request.headers["content-length"] ?? 0) > discardedBytesMax)
    reply.header("connection", "close");
  else reply.removeHeader("connection");
  if (isUnidentified(failure) && !request.raw.complete) destroyWithin(request.raw.socket, refusedMs, request.raw);
  reply.headers(requestIdHeadersOf(request));
  const { statusOf, errorBodyOf } = profiles[dialectOf(request.url, request.headers)];
  const body = isOllamaPath(request.url) ? ollamaErrorOf(failure.message) : errorBodyOf(failure, request.id);
  return reply.code(statusOf(failure.code)).headers(failureHeadersOf(failure)).send(body);
}

/** The running responses of each connection: nothing else may be written into them. */
export class ResponsesInProgress {
  readonly #responses = new WeakMap<Socket, ServerResponse[]>();

  add(socket: Socket, response: ServerResponse): void {
    const responses = this.#responses.get(socket);
    if (responses === undefined) this.#responses.set(socket, [response]);
    else responses.push(response);
  }

  remove(socket: Socket, response: ServerResponse): void {
    const responses = this.#responses.get(socket) ?? [];
    responses.splice(responses.indexOf(response), 1);
  }

  /**
   * Answers bytes that are not an HTTP request, or a request that did not arrive in time, and
   * closes the connection.
   */
  refuseConnection(error: Error & { code?: string }, socket: Socket): void {
    const isResponding = (this.#responses.get(socket) ?? []).some(({ headersSent }) => headersSent);
    if (isResponding || error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const failure: Failure =
      error.code === "HPE_HEADER_OVERFLOW"
        ? { code: "headers_too_large", message: `The headers are larger than ${headerBytesMax} bytes.` }
        : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
          ? tooLate
          : invalidRequest("This is not a valid HTTP/1.1 request.");
    const { statusOf, errorBodyOf } = profiles["openai-chat"];
    const status = statusOf(failure.code);
    const body = errorBodyOf(failure, "");
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
    destroyWithin(socket, refusedMs);
  }
}

/**
 * Ends a connection on which everything is written, and discards later input: a reset because of
 * unread bytes would destroy the response at its receiver.
 */
export function closeWithin(socket: Socket, ms: number): void {
  socket.end();
  socket.resume();
  destroyWithin(socket, ms);
}

/**
 * Destroys a socket unless it closes in time, or the request that is still being read from it does.
 */
function destroyWithin(socket: Socket, ms: number, until: Socket | IncomingMessage = socket): void {
  const timer = setTimeout(() => socket.destroy(), ms);
  until.once("close", () => clearTimeout(timer));
}
