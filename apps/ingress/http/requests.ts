/** The callers' HTTP server: limits on what may arrive, who may ask, and every fault told in the caller's dialect. */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { Transform } from "node:stream";
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type RequestPayload,
} from "fastify";
import { authenticate } from "#access/authenticate.ts";
import type { KeyRecord } from "#access/record.ts";
import { errorBodyOf, type Failure, statusOf } from "#dialects/errors.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { Capacity, Claim } from "../admission/capacity.ts";
import { type IngressConfig, smallBodyBytesMax } from "../config.ts";
import { failureHeadersOf } from "../generation/generation-response.ts";
import type { IngressMetrics } from "../metrics.ts";
import { credentialsOf } from "./credentials.ts";
import { dialectOf, isSocketHandshake, requestIdHeadersOf } from "./endpoints.ts";
import { failureOf, invalidKey, notFoundOf, overloadOf, tooLarge, tooSlow } from "./failures.ts";
import { CallerResponse, type UnreadAnswers } from "./unread.ts";
import { UploadPace, uploadLookMsOf } from "./upload-pace.ts";

const headerBytesMax = 32 * 1024;
/** What is left of a refused body is read and thrown away up to this: many senders whose connection is closed under their hands never see the answer. */
const discardedBytesMax = 128 << 20;
/** So many times what has arrived of a large body is counted, up to what was announced: room is soon sure for who sends, and not taken by who does not. */
const countedAhead = 4;
/** How long a sender that is refused may take to read why and to finish what it sends; then its connection is closed. */
const refusedMs = 2_000;
/** How often within the time limit for sending a connection is checked. */
const checksPerSendTimeout = 4;
/** What counts as the status of an answer whose caller left before its end; nobody is sent it. */
export const callerLeftStatus = 499;
export const noBytes = Buffer.alloc(0);
/** What counts as the status of a request that became a WebSocket. */
const switchedStatus = 101;

declare module "fastify" {
  interface FastifyInstance {
    /** Has the routes of a scope take forms in place of JSON. */
    readForms(scope: FastifyInstance): void;
    /** Who asks by a request's headers, as of now. Throws Refused for a key that is not valid, or no longer. */
    callerOf(request: FastifyRequest): KeyRecord;
    /** Has a request hold this many bytes of what there is for bodies, unless it holds more already. Throws Refused when its key gets no more. */
    reserve(request: FastifyRequest, bytes: number): void;
  }
  interface FastifyRequest {
    /** Who asks; set before any handler runs. */
    caller: KeyRecord;
    /** The body as it was sent; empty where there is none. It is read by its handler (body-reader.ts). */
    bytes: Buffer;
    /** What it holds of the bytes that there are for bodies; its generation takes it over. */
    held: Claim;
    /** A generation answers it, and writes the log's line of it. */
    isGeneration: boolean;
  }
}

export interface RequestsOptions {
  config: IngressConfig;
  /** Bytes of request bodies in this process. */
  bodies: Capacity;
  /** What waits for callers to take it. */
  unread: UnreadAnswers;
  metrics: IngressMetrics;
  keys: { find(hash: string): KeyRecord | undefined };
  /** An id for a request, which its caller gets as `x-request-id`. */
  nextId(): string;
  /** This process is about to stop: connections are not kept. */
  isDraining(): boolean;
  /** Faults of our own; never the caller's content. */
  onFault(error: Error, requestId: string): void;
}

/** A failure thrown on the way to an answer. */
export class Refused extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** A server without routes. Handlers throw Refused for what can't be served. */
export function createRequestServer({
  config,
  bodies,
  unread,
  metrics,
  keys,
  nextId,
  isDraining,
  onFault,
}: RequestsOptions): FastifyInstance {
  /** The answers that are under way on a connection: nothing may be written into them. */
  const answers = new WeakMap<Socket, ServerResponse[]>();
  const isAnswering = (socket: Socket) => (answers.get(socket) ?? []).some(({ headersSent }) => headersSent);
  const becomesSocket = (request: IncomingMessage) => config.responsesWebsocket === "on" && isSocketHandshake(request);
  const server = Fastify({
    bodyLimit: config.bodyBytesMax,
    requestTimeout: config.requestTimeoutMs,
    keepAliveTimeout: 75_000,
    forceCloseConnections: false,
    return503OnClosing: false,
    genReqId: nextId,
    routerOptions: { maxParamLength: 300 },
    http: {
      ServerResponse: CallerResponse,
      maxHeaderSize: headerBytesMax,
      // Node compares the two before Fastify sets its own.
      requestTimeout: config.requestTimeoutMs,
      headersTimeout: config.requestTimeoutMs / 4,
      connectionsCheckingInterval: 1_000,
      // Everything else that asks for another protocol, as some clients do of HTTP/2 with every request, is answered in this one.
      shouldUpgradeCallback: becomesSocket,
    },
    clientErrorHandler: (error, socket) => (isAnswering(socket) ? socket.destroy() : refuseConnection(error, socket)),
    frameworkErrors: (error, request, reply) => refuse(failureOf(error), request, reply as FastifyReply),
  });

  server.decorateRequest("caller");
  server.decorateRequest("bytes");
  server.decorateRequest("held");
  server.decorateRequest("isGeneration", false);

  server.decorate("callerOf", ({ headers, url }: FastifyRequest) => {
    const authentication = authenticate(credentialsOf(headers, url), keys, Date.now());
    if (authentication.kind === "refused") throw new Refused(invalidKey);
    return authentication.record;
  });

  server.addHook("onRequest", async (request, reply) => {
    reply.headers(requestIdHeadersOf(request));
    request.bytes = noBytes;
    const { socket } = request.raw;
    // Nobody else closes a socket that Node handed over to become a WebSocket: a refusal is all that is ever written to it.
    if (becomesSocket(request.raw)) reply.raw.once("finish", () => closeWithin(socket, refusedMs));
    const underWay = answers.get(socket) ?? [];
    answers.set(socket, underWay);
    underWay.push(reply.raw);
    closeUnread(reply.raw, socket, config.sendTimeoutMs);
    reply.raw.once("close", () => {
      underWay.splice(underWay.indexOf(reply.raw), 1);
      uploads.delete(request.id);
      (request.held as Claim | undefined)?.end();
      (reply.raw as CallerResponse).unread?.end();
      const path = request.routeOptions.url ?? "other";
      const isSocket = request.ws && !reply.raw.writableFinished;
      metrics.requests.inc({
        path,
        status: reply.raw.writableFinished ? reply.raw.statusCode : isSocket ? switchedStatus : callerLeftStatus,
      });
      if (!isSocket) metrics.duration.observe({ path }, reply.elapsedTime / 1_000);
    });
    if (isDraining()) reply.header("connection", "close");
    if (hasUnknownCoding(request))
      throw new Refused({
        code: "invalid_request",
        message: "The only transfer coding that is supported is 'chunked'.",
      });
    request.caller = server.callerOf(request);
    request.held = bodies.claim(request.caller.id);
    const response = reply.raw as CallerResponse;
    response.unread = unread.of(request.caller.id, {
      bytes: () => (socket.destroyed ? 0 : response.writableLength),
      cut: () => socket.destroy(),
    });
    if (request.is404) throw new Refused(notFoundOf(request, reply, server));
  });

  // Node's own answer to such a request is to ask for the body before anybody has looked at the headers.
  server.server.on("checkContinue", (request, response) => server.routing(request, response));

  server.addHook("preParsing", async (request, reply, payload) => {
    const body = admittedBody(request, reply, payload);
    if (request.headers.expect !== undefined) reply.raw.writeContinue();
    if (!request.raw.complete && !reply.raw.closed)
      uploads.set(request.id, {
        socket: request.raw.socket,
        body,
        pace: new UploadPace(config, request.raw.socket.bytesRead, performance.now()),
      });
    return body;
  });

  /** The body as it is read; throws Refused for one that is not wanted, before any of it is read. */
  const admittedBody = (request: FastifyRequest, reply: FastifyReply, payload: RequestPayload): RequestPayload => {
    if (request.headers["content-encoding"] !== undefined && request.headers["content-encoding"] !== "identity")
      throw new Refused({
        code: "unsupported_media_type",
        message: "Compressed bodies are not supported; send the body as it is.",
      });
    if (request.headers["transfer-encoding"] !== undefined) return counted(request, reply.raw, payload);
    const announced = Number(request.headers["content-length"] ?? 0);
    if (announced > config.bodyBytesMax) throw new Refused(tooLarge(config.bodyBytesMax));
    if (announced > smallBodyBytesMax) {
      const shortage = request.held.shortageFor(announced);
      if (shortage !== undefined) throw new Refused(overloadOf(metrics, "bodies", shortage));
      reserve(request, smallBodyBytesMax);
      return counted(request, reply.raw, payload, announced);
    }
    reserve(request, announced);
    return payload;
  };

  /** A body that is counted as it arrives, or somewhat ahead of that; once it is refused, the rest of it is thrown away. */
  const counted = (request: FastifyRequest, response: ServerResponse, body: RequestPayload, announced?: number) => {
    let bytes = 0;
    const counter = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        bytes += chunk.length;
        try {
          if (bytes > config.bodyBytesMax) throw new Refused(tooLarge(config.bodyBytesMax));
          if (!response.writableEnded && !response.destroyed)
            reserve(request, announced === undefined ? bytes : Math.min(announced, countedAhead * bytes));
          done(null, chunk);
        } catch (error) {
          done(error as Error);
        }
      },
    });
    counter.once("error", () => body.resume());
    body.once("close", () => {
      if (!request.raw.complete) counter.destroy();
    });
    return body.pipe(counter);
  };

  /** Bodies that are arriving. */
  const uploads = new LiveMap<string, Upload>();
  const looking = setInterval(() => {
    const now = performance.now();
    for (const { socket, body, pace } of uploads.values())
      if (pace.isTooSlow(socket.bytesRead, now)) cutOff(body, new Refused(tooSlow(config)));
  }, uploadLookMsOf(config));
  server.addHook("onClose", async () => clearInterval(looking));

  server.removeAllContentTypeParsers();
  const keepBytes = (request: FastifyRequest, bytes: Buffer, done: (error: Error | null, body?: unknown) => void) => {
    uploads.delete(request.id);
    try {
      reserve(request, bytes.length);
      request.bytes = bytes;
      done(null);
    } catch (error) {
      done(error as Error);
    }
  };
  server.addContentTypeParser("application/json", { parseAs: "buffer" }, keepBytes);
  server.decorate("readForms", (scope: FastifyInstance) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("multipart/form-data", { parseAs: "buffer" }, keepBytes);
  });

  const reserve = (request: FastifyRequest, bytes: number) => {
    const shortage = request.held.hold(Math.max(bytes, request.held.amount));
    if (shortage !== undefined) throw new Refused(overloadOf(metrics, "bodies", shortage));
  };
  server.decorate("reserve", reserve);

  const refuse = (failure: Failure, request: FastifyRequest, reply: FastifyReply) => {
    metrics.errors.inc({ code: failure.code });
    uploads.delete(request.id);
    const mustClose = isDraining() || hasUnknownCoding(request) || failure.code === "request_timeout";
    if (mustClose || Number(request.headers["content-length"] ?? 0) > discardedBytesMax)
      reply.header("connection", "close");
    else reply.removeHeader("connection");
    if (failure.code === "invalid_key" && !request.raw.complete)
      destroyWithin(request.raw.socket, refusedMs, request.raw);
    reply.headers(requestIdHeadersOf(request));
    const dialect = dialectOf(request.url, request.headers);
    return reply
      .code(statusOf(failure.code, dialect))
      .headers(failureHeadersOf(failure))
      .send(errorBodyOf(dialect, failure, request.id));
  };

  server.setErrorHandler<FastifyError | Refused>((error, request, reply) => {
    const failure = error instanceof Refused ? error.failure : failureOf(error, config.bodyBytesMax);
    if (failure.code === "internal") onFault(error, request.id);
    return refuse(failure, request, reply);
  });
  return server;
}

interface Upload {
  socket: Socket;
  body: RequestPayload;
  pace: UploadPace;
}

/** Ends the reading of a body with this error. */
function cutOff(body: RequestPayload, error: Refused): void {
  // To destroy a request would break its connection before it is answered.
  if (body instanceof Transform) body.destroy(error);
  else if (body.listenerCount("error") > 0) body.emit("error", error);
}

/** What is no request, or not in time: answered on the bare socket, which is closed. */
function refuseConnection(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const failure: Failure =
    error.code === "HPE_HEADER_OVERFLOW"
      ? { code: "headers_too_large", message: `The headers may have ${headerBytesMax} bytes at most.` }
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? { code: "request_timeout", message: "The request did not arrive in time." }
        : { code: "invalid_request", message: "This is not a valid HTTP/1.1 request." };
  const status = statusOf(failure.code, "openai-chat");
  const body = errorBodyOf("openai-chat", failure, "");
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  destroyWithin(socket, refusedMs);
}

/** Ends a connection on which everything is written, and reads and discards what still comes: unread bytes would cost its sender the answer. */
function closeWithin(socket: Socket, ms: number): void {
  socket.end();
  socket.resume();
  destroyWithin(socket, ms);
}

/** Destroys a socket unless it, or the request that is still read from it, is closed in time. */
function destroyWithin(socket: Socket, ms: number, until: Socket | IncomingMessage = socket): void {
  const timer = setTimeout(() => socket.destroy(), ms);
  until.once("close", () => clearTimeout(timer));
}

/** Are the bytes of the body anything but the body, as a sender or a proxy sees it? https://www.rfc-editor.org/rfc/rfc9112#section-6.1 */
const hasUnknownCoding = ({ headers }: FastifyRequest): boolean =>
  (headers["transfer-encoding"] ?? "chunked").toLowerCase() !== "chunked";

/**
 * Destroys a connection whose peer has taken nothing for this long of what waits for it. A quiet model is no reason to: then nothing waits. Node reports a
 * socket on which nothing moved between two checks, and only waits for the next check when a part of a write went on.
 */
function closeUnread(response: ServerResponse, socket: Socket, timeoutMs: number): void {
  const checkMs = timeoutMs / checksPerSendTimeout;
  let quietMs = 0;
  let taken = 0;
  let checkedAt = 0;
  response.setTimeout(checkMs, () => {
    const now = performance.now();
    const moved = socket.bytesWritten - socket.writableLength !== taken || now - checkedAt > 1.5 * checkMs;
    taken = socket.bytesWritten - socket.writableLength;
    checkedAt = now;
    quietMs = moved ? checkMs : quietMs + checkMs;
    if (socket.writableLength === 0) return;
    if (quietMs >= timeoutMs) socket.destroy();
    else socket.setTimeout(checkMs);
  });
}
