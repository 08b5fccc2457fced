/** The callers' HTTP server: limits on what may arrive, who may ask, and every fault told in the caller's dialect. */
import { isUtf8 } from "node:buffer";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { authenticate } from "#access/authenticate.ts";
import type { KeyRecord } from "#access/record.ts";
import type { CallerDialect } from "#wire/dialect.ts";
import { errorBodyOf, type Failure, statusOf } from "#wire/errors.ts";
import { failureHeadersOf } from "./answer.ts";
import type { IngressConfig } from "./config.ts";
import { credentialsOf } from "./credentials.ts";
import type { IngressMetrics } from "./metrics.ts";

const headerBytesMax = 32 * 1024;
/** A body of unknown length counts as this much until it is there. */
const unknownBodyBytes = 1 << 20;

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks; set before any handler runs. */
    caller: KeyRecord;
    /** The body as it was sent. */
    bytes: Buffer;
    /** What the body counts in the budget of all bodies; whoever takes it over sets it to 0 and gives it back. */
    budgetedBytes: number;
    /** A generation answers it, and writes the log's line of it. */
    isGeneration: boolean;
  }
}

/** Bytes of request bodies in this process, so that many large ones are refused before they are read. */
export class BodyBudget {
  readonly bytesMax: number;
  bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Takes the bytes if they fit. */
  take(bytes: number): boolean {
    if (this.bytes + bytes > this.bytesMax) return false;
    this.bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.bytes -= bytes;
  }
}

export interface RequestsOptions {
  config: IngressConfig;
  budget: BodyBudget;
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
export function createRequestServer({ config, budget, metrics, keys, nextId, isDraining, onFault }: RequestsOptions): FastifyInstance {
  const server = Fastify({
    bodyLimit: config.bodyBytesMax,
    requestTimeout: config.requestTimeoutMs,
    keepAliveTimeout: 75_000,
    forceCloseConnections: false,
    return503OnClosing: false,
    genReqId: nextId,
    routerOptions: { maxParamLength: 300 },
    ajv: { customOptions: { coerceTypes: false, useDefaults: false, removeAdditional: false, allErrors: false, strict: false, verbose: true } },
    http: { maxHeaderSize: headerBytesMax, headersTimeout: config.requestTimeoutMs / 4, connectionsCheckingInterval: 1_000 },
    clientErrorHandler: refuseConnection,
    frameworkErrors: (error, request, reply) => refuse(failureOf(error), request, reply as FastifyReply),
  });

  server.decorateRequest("caller");
  server.decorateRequest("bytes");
  server.decorateRequest("budgetedBytes", 0);
  server.decorateRequest("isGeneration", false);

  server.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
    if (isDraining()) reply.header("connection", "close");
    const authentication = authenticate(credentialsOf(request.headers, request.url), keys, Date.now());
    if (authentication.kind === "refused") throw new Refused(invalidKey);
    request.caller = authentication.record;
  });

  server.addHook("preParsing", async (request) => {
    if (request.headers["content-encoding"] !== undefined && request.headers["content-encoding"] !== "identity")
      throw new Refused({ code: "unsupported_media_type", message: "Compressed bodies are not supported; send the body as it is." });
    const announced = request.headers["content-length"];
    const bytes = announced === undefined ? (request.headers["transfer-encoding"] === undefined ? 0 : unknownBodyBytes) : Number(announced);
    if (bytes > config.bodyBytesMax) throw new Refused(tooLarge(config.bodyBytesMax));
    if (bytes > 0) reserve(request, bytes);
  });

  server.addHook("onResponse", async (request, reply) => {
    budget.giveBack(request.budgetedBytes);
    request.budgetedBytes = 0;
    const path = request.routeOptions.url ?? "other";
    metrics.requests.inc({ path, status: reply.statusCode });
    metrics.duration.observe({ path }, reply.elapsedTime / 1_000);
  });

  server.removeAllContentTypeParsers();
  server.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, bytes: Buffer, done) => {
    try {
      reserve(request, bytes.length);
      request.bytes = bytes;
      done(null, parsed(bytes));
    } catch (error) {
      done(error as Error);
    }
  });

  const reserve = (request: FastifyRequest, bytes: number) => {
    if (bytes > request.budgetedBytes && !budget.take(bytes - request.budgetedBytes))
      throw new Refused({ code: "overloaded", message: "The gateway holds as many large requests as it can; try again in a moment.", retryAfterSeconds: 1 });
    request.budgetedBytes = Math.max(bytes, request.budgetedBytes);
  };

  const refuse = (failure: Failure, request: FastifyRequest, reply: FastifyReply) => {
    metrics.errors.inc({ code: failure.code });
    const unread = request.raw.headers["content-length"] !== undefined || request.raw.headers["transfer-encoding"] !== undefined;
    if (unread && !request.raw.complete) reply.header("connection", "close");
    reply.header("x-request-id", request.id);
    return reply
      .code(statusOf(failure.code))
      .headers(failureHeadersOf(failure))
      .send(errorBodyOf(dialectOf(request.url), failure));
  };

  server.setErrorHandler<FastifyError | Refused>((error, request, reply) => {
    const failure = error instanceof Refused ? error.failure : failureOf(error, config.bodyBytesMax);
    if (failure.code === "internal") onFault(error, request.id);
    return refuse(failure, request, reply);
  });

  server.setNotFoundHandler((request, reply) => refuse(notFoundOf(request, reply, server), request, reply));
  return server;
}

const invalidKey: Failure = {
  code: "invalid_key",
  message: "The API key is missing or not valid. Send a key of this gateway as 'Authorization: Bearer <key>'.",
};

const tooLarge = (bytesMax: number): Failure => ({ code: "body_too_large", message: `The body may have ${bytesMax} bytes at most.` });

/** The dialect that a path belongs to; what belongs to none is answered as OpenAI's clients expect. */
function dialectOf(_url: string): CallerDialect {
  return "openai-chat";
}

function parsed(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new Refused({ code: "invalid_request", message: "The body is not valid UTF-8." });
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    const place = /at position \d+/.exec((error as Error).message)?.[0];
    throw new Refused({ code: "invalid_request", message: `The body is not valid JSON${place === undefined ? "" : ` (${place})`}.` });
  }
}

function failureOf(error: FastifyError, bodyBytesMax = 0): Failure {
  const [fault] = error.validation ?? [];
  if (fault !== undefined) return invalidFieldOf(fault as ValidationFault);
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return tooLarge(bodyBytesMax);
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return { code: "unsupported_media_type", message: "Send the body as JSON, with 'Content-Type: application/json'." };
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
      return { code: "invalid_request", message: "The body is empty, or shorter than its Content-Length." };
    case "FST_ERR_BAD_URL":
    case "FST_ERR_PARAM_MAX_LENGTH":
      return { code: "path_not_found", message: "The path is not a valid URL path." };
    default:
      return error.statusCode === 400
        ? { code: "invalid_request", message: "The request could not be read." }
        : { code: "internal", message: "The gateway failed to process this request." };
  }
}

interface ValidationFault {
  instancePath: string;
  keyword: string;
  params: Record<string, unknown>;
  message?: string;
}

/** One field's fault, with its path as a caller would write it: `messages[0].content`. */
function invalidFieldOf({ instancePath, keyword, params, message }: ValidationFault): Failure {
  const steps = instancePath.split("/").slice(1);
  if (keyword === "required") steps.push(String(params.missingProperty));
  const param = steps.reduce((path, step) => (/^\d+$/.test(step) ? `${path}[${step}]` : path === "" ? step : `${path}.${step}`), "");
  if (param === "") return { code: "invalid_request", message: "The body must be a JSON object." };
  const allowed = keyword === "enum" ? `: ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(", ")}` : "";
  const what = keyword === "required" ? "is missing" : `${message ?? "is not valid"}${allowed}`;
  return { code: "invalid_request", message: `'${param}' ${what}.`, param };
}

const doubledPrefix = /^(?:\/v1(?:alpha|beta1?)?){2,}(?=\/|$)/;

function notFoundOf(request: FastifyRequest, reply: FastifyReply, server: FastifyInstance): Failure {
  const path = request.url.split("?", 1)[0] as string;
  const allowed = ["GET", "POST"].filter((method) => method !== request.method && server.findRoute({ url: path, method: method as "GET" }) !== null);
  if (allowed.length > 0) {
    reply.header("allow", allowed.join(", "));
    return { code: "method_not_allowed", message: `${request.method} is not allowed here; use ${allowed.join(" or ")}.` };
  }
  const prefix = doubledPrefix.exec(path)?.[0];
  if (prefix !== undefined)
    return {
      code: "path_not_found",
      message:
        `The path begins with its version twice (${prefix}). OpenAI's clients want a base address that ends in one /v1; ` +
        "Anthropic's and Google's add the version themselves: give them the base address without it.",
    };
  return { code: "path_not_found", message: `There is no ${request.method} ${printable(path)} here.` };
}

const printable = (path: string) => path.slice(0, 200).replaceAll(/[^\x20-\x7e]/g, "?");

/** What arrives before there is a request: answered on the bare socket, which is closed. */
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
  const status = statusOf(failure.code);
  const body = errorBodyOf("openai-chat", failure);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
