/**
 * The callers' HTTP server, without its routes: bounds on what may arrive, authentication, and
 * errors in the caller's dialect.
 */

import type { IncomingMessage } from "node:http";
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { allowsAddress } from "#access/addresses.ts";
import type { KeyRecord } from "#access/record.ts";
import type { UploadTickets } from "#access/upload-tickets.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { ErrorCode, Failure } from "#dialects/errors.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents, RefusedCall, RequestEnded } from "#events/ingress-events.ts";
import { realtimePath } from "#operations/realtime/operation.ts";
import type { Clock } from "#service/clock.ts";
import { protocols } from "#service/protocol.ts";
import type { BeginTrace } from "#tracing/tracing.ts";
import { fileRequestMs, headerBytesMax, refusedMs } from "../common/bounds.ts";
import type { IngressConfig } from "../common/config.ts";
import { isSocketHandshake, pathOf, requestIdHeadersOf } from "../common/endpoints.ts";
import {
  addressNotAllowed,
  failureOf,
  invalidToken,
  notFoundOf,
  redisIsAway,
  unavailable,
} from "../common/failures.ts";
import { labelsOf, noLabels } from "../common/labels.ts";
import { outlastRedis } from "../common/outlast-redis.ts";
import { invalidRequest, Refusal } from "../common/refusal.ts";
import { servedPathOf } from "../common/vendor-paths.ts";
import { authenticateCaller, credentialsOf, type KeyDirectory, NewKeys, unidentified } from "./authentication.ts";
import { type BatchCallers, isBatchLine } from "./batch-callers.ts";
import type { ClientSecrets, Grant } from "./client-secrets.ts";
import { Cors } from "./cors.ts";
import { PublicModels } from "./public-models.ts";
import { closeWithin, hasUnknownCoding, ResponsesInProgress, sendFailure } from "./refusals.ts";
import { noBytes, type RequestBodies } from "./request-bodies.ts";
import type { Trials } from "./trials.ts";
import { CallerResponse, destroyWhenUnread, type UnreadAnswers } from "./unread.ts";

/** The status in metrics for a response whose caller left before its end; nobody receives it. */
export const callerLeftStatus = 499;
/** The path in metrics of a request without a route. */
const noRoute = "other";
/** The status in metrics for a request that became a WebSocket. */
const upgradedStatus = 101;

declare module "fastify" {
  interface FastifyRequest {
    /** Set if the caller has a client secret instead of an API key. */
    grant: Grant | undefined;
    /** A generation answers the request and reports its end. */
    isGeneration: boolean;
    /** The model and the queue of a generation that was refused; undefined for an unknown model. */
    refusedCall: RefusedCall | undefined;
    /** The code of the gateway's own error that answers it. */
    errorCode: ErrorCode | undefined;
  }
}

export interface RequestServerOptions {
  config: IngressConfig;
  clock: Clock;
  events: EventSink<IngressEvents>;
  keys: KeyDirectory;
  catalogue(): Catalogue;
  bodies: RequestBodies;
  /** Bytes of responses that callers have not taken. */
  unread: UnreadAnswers;
  clientSecrets: ClientSecrets;
  /** Undefined where callers cannot upload files. */
  tickets: UploadTickets | undefined;
  /** Undefined where no control may send lines of batches. */
  batchCallers: BatchCallers | undefined;
  trials: Trials;
  /** Undefined while tracing is off. */
  beginTrace: BeginTrace | undefined;
  /** The paths that serve WebSockets. */
  socketPaths: readonly string[];
  /** A new id for a request, which its caller gets as `x-request-id`. */
  nextId(): string;
  /** Aborted when this process begins to stop: from then on connections are not kept. */
  draining: AbortSignal;
}

/** A server without routes. A handler throws Refusal for a request that it cannot serve. */
export function createRequestServer(options: RequestServerOptions): FastifyInstance {
  const { config, events, bodies, draining } = options;
  const responses = new ResponsesInProgress();
  const cors = new Cors(options);
  const newKeys = new NewKeys(options.keys);
  const publicModels = new PublicModels(options);
  const requestTimeout = Math.max(config.requestTimeoutMs, options.tickets === undefined ? 0 : fileRequestMs);
  const isUpgrade = (request: IncomingMessage) => isSocketHandshake(request, options.socketPaths);
  const refuse = (failure: Failure, request: FastifyRequest, reply: FastifyReply) => {
    events.emit("requestRefused", { requestId: request.id, code: failure.code });
    request.errorCode = failure.code;
    bodies.uploadEnded(request);
    return sendFailure(failure, request, reply, draining);
  };
  const server = Fastify({
    bodyLimit: config.bodyBytesMax,
    requestTimeout,
    keepAliveTimeout: 75_000,
    forceCloseConnections: false,
    return503OnClosing: false,
    trustProxy: config.trustedProxies.length > 0 && config.trustedProxies,
    genReqId: options.nextId,
    rewriteUrl: ({ url = "" }) => servedPathOf(url).url,
    routerOptions: { maxParamLength: 300 },
    http: {
      ServerResponse: CallerResponse,
      maxHeaderSize: headerBytesMax,
      // Node validates this timeout before Fastify sets its own.
      requestTimeout,
      headersTimeout: config.requestTimeoutMs / 4,
      connectionsCheckingInterval: 1_000,
      // Some clients offer HTTP/2 with every request: such a request is answered over HTTP/1.1.
      shouldUpgradeCallback: isUpgrade,
    },
    clientErrorHandler: (error, socket) => responses.refuseConnection(error, socket),
    frameworkErrors: (error, request, reply) => {
      cors.expose(request, reply.raw);
      return refuse(failureOf(error), request, reply as FastifyReply);
    },
  });
  events.emit("pathServed", { path: noRoute });
  server.addHook("onRoute", ({ url }) => events.emit("pathServed", { path: url }));
  server.decorateRequest("caller");
  server.decorateRequest("grant");
  server.decorateRequest("apiKey");
  server.decorateRequest("batchLine");
  server.decorateRequest("trial");
  server.decorateRequest("isGeneration", false);
  server.decorateRequest("refusedCall");
  server.decorateRequest("errorCode");
  // Without a promise where nothing is waited for: most requests go on in the same turn.
  server.addHook("onRequest", (request, reply, done): Promise<void> | undefined => {
    openResponse(options, responses, request, reply);
    // Node does not manage the socket of an upgrade, so it is closed after the refusal.
    if (isUpgrade(request.raw)) reply.raw.once("finish", () => closeWithin(request.raw.socket, refusedMs));
    cors.expose(request, reply.raw);
    if (cors.answersPreflight(request, reply) || publicModels.answers(request, reply)) return undefined;
    if (hasUnknownCoding(request)) throw new Refusal(unknownCoding);
    const enter = (isIdentified: boolean | undefined) => {
      // A batch stops at a 401, which is that of the token of its caller in each dialect.
      if (isIdentified !== true)
        throw new Refusal(
          isBatchLine(request) ? invalidToken : unidentified(request, options.keys, options.clock.epoch()),
        );
      openClaims(options, request, reply);
      cors.check(request);
      options.trials.open(request, options.clock.epoch());
      if (request.is404) throw new Refusal(notFoundOf(request, reply, server));
    };
    const isPlain = !isBatchLine(request) && pathOf(request.url) !== realtimePath;
    if (!isPlain || !identifies(options, request)) return identifyLater(request).then(enter);
    enter(true);
    done();
    return undefined;
  });
  /** For a request whose headers alone do not name its caller, or name none that is known here. */
  const identifyLater = async (request: FastifyRequest): Promise<boolean | undefined> => {
    const mayHaveGrant = pathOf(request.url) === realtimePath;
    if (mayHaveGrant) request.grant = await grantOf(options, request);
    if (isBatchLine(request)) return options.batchCallers?.identify(request, options.clock.epoch());
    return (
      (mayHaveGrant && identifies(options, request)) ||
      (await isUploading(options, request)) ||
      ((await newKeys.learn(request)) && identifies(options, request))
    );
  };
  // Generations write their own heads.
  server.addHook("onSend", (request, reply, _payload, done) => {
    reply.headers(requestIdHeadersOf(request));
    if (draining.aborted) reply.header("connection", "close");
    done();
  });
  // By default Node sends 100 Continue before any handler sees the headers.
  server.server.on("checkContinue", (request, response) => server.routing(request, response));
  bodies.addTo(server);
  server.setErrorHandler<FastifyError | Refusal>((error, request, reply) => {
    const isRefusal = error instanceof Refusal;
    const failure = isRefusal ? error.failure : failureOf(error, config.bodyBytesMax);
    if (isRefusal) reply.headers(error.headers);
    if (failure.code === "internal") events.emit("fault", { error, requestId: request.id });
    return refuse(failure, request, reply);
  });
  return server;
}

/** Sets up what every response needs, whatever its outcome. */
function openResponse(
  { config, clock, events, bodies, beginTrace }: RequestServerOptions,
  responses: ResponsesInProgress,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const startedAt = clock.now();
  const { socket } = request.raw;
  request.bytes = noBytes;
  destroyWhenUnread(reply.raw, socket, config.sendTimeoutMs, clock);
  responses.add(socket, reply.raw);
  reply.raw.once("close", () => {
    responses.remove(socket, reply.raw);
    bodies.close(request);
    (reply.raw as CallerResponse).unread?.end();
    const isRefused = request.errorCode !== undefined && (request.caller as KeyRecord | undefined) !== undefined;
    const trace = isRefused ? beginTrace?.(request.headers) : undefined;
    events.emit("requestEnded", requestEndedOf(request, reply, clock.now() - startedAt, trace));
  });
}

/**
 * The rights of the caller's client secret; undefined if it has none that is valid. Rejects while
 * Redis is away for long.
 */
function grantOf(
  { config: { redisWaitMs }, clientSecrets, keys, clock }: RequestServerOptions,
  { headers, url }: FastifyRequest,
): Promise<Grant | undefined> {
  const credentials = credentialsOf(headers, url);
  return outlastRedis({ clock, redisWaitMs }, () => clientSecrets.grantOf(credentials, keys, clock.epoch()));
}

const unknownCoding = invalidRequest("The only transfer coding that is supported is 'chunked'.");

/** Sets the caller of a request. False if it has no valid credential. */
function identifies({ keys, clock }: RequestServerOptions, request: FastifyRequest): boolean {
  const { grant } = request;
  if (grant === undefined) return authenticateCaller(keys, clock.epoch(), request);
  request.caller = grant.record;
  return true;
}

/** Sets the caller of a request whose URL has a valid ticket for an upload. */
async function isUploading({ tickets, keys, clock }: RequestServerOptions, request: FastifyRequest): Promise<boolean> {
  const record = await tickets?.recordOf(request.url, keys, clock.epoch()).catch(redisIsAway);
  if (record !== undefined) request.caller = record;
  return record !== undefined;
}

/**
 * Opens the claims of an authenticated caller. Throws Refusal for an address that its key does not
 * allow, and for a key with restrictions that only processes of a later protocol know.
 */
function openClaims({ bodies, unread }: RequestServerOptions, request: FastifyRequest, reply: FastifyReply): void {
  if ((request.caller.protocol ?? 1) > protocols.current) throw new Refusal(unavailable);
  if (request.batchLine === undefined && !allowsAddress(request.caller, request.ip))
    throw new Refusal(addressNotAllowed(request.ip));
  bodies.open(request);
  const { socket } = request.raw;
  const response = reply.raw as CallerResponse;
  response.unread = unread.of(request.caller.id, {
    bytes: () => (socket.destroyed ? 0 : response.writableLength),
    cut: () => socket.destroy(),
  });
}

function requestEndedOf(
  request: FastifyRequest,
  reply: FastifyReply,
  durationMs: number,
  trace: RequestEnded["trace"],
): RequestEnded {
  const raw = reply.raw as CallerResponse;
  const isAnswered = raw.writableFinished || (raw.headersSent && raw.isBroken);
  const isUpgraded = request.ws && !isAnswered;
  const caller = request.caller as KeyRecord | undefined;
  const { user, session, tags } = request.isGeneration ? noLabels : labelsOf(caller ?? {}, request.headers);
  return {
    requestId: request.id,
    transport: "http",
    method: request.method,
    path: request.routeOptions.url ?? noRoute,
    status: isAnswered ? raw.statusCode : isUpgraded ? upgradedStatus : callerLeftStatus,
    keyId: caller?.id,
    group: caller?.group,
    account: caller?.account,
    user,
    session,
    tags,
    errorCode: request.errorCode,
    refusedCall: request.refusedCall,
    batchLine: request.batchLine,
    outcome: request.isGeneration ? "generation" : isAnswered ? "answered" : isUpgraded ? "upgraded" : "left",
    durationMs: isUpgraded ? undefined : durationMs,
    retries: String(request.headers["x-stainless-retry-count"] ?? "").slice(0, 4) || undefined,
    trace,
  };
}
