/**
 * The HTTP API of control: routes made from the table of operations, with validation, sign-in,
 * scopes, ETags and errors.
 */

import { Readable } from "node:stream";
import swagger from "@fastify/swagger";
import fastJsonStringify from "fast-json-stringify";
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import Type, { type TSchema } from "typebox";
import { Compile } from "typebox/compile";
import type { TLocalizedValidationError } from "typebox/error";
import { Value } from "typebox/value";
import { problem } from "#api/common.ts";
import type { Operation } from "#api/operation.ts";
import { operations } from "#api/operations.ts";
import type { Clock } from "#service/clock.ts";
import { callerOf, TokenBuckets } from "#service/token-buckets.ts";
import { faultMessageOf, parseWithin, requestBounds } from "#wire/json/bounds.ts";
import { bodyBytesMax, callersMax, publicSeconds } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { type Actor, scopeOf } from "./actor.ts";
import { attachmentOf } from "./attachment.ts";
import { addCompression } from "./compression.ts";
import { addConsole, type ConsoleOptions } from "./console.ts";
import { Fault } from "./faults.ts";
import type { Answered, Context, Handlers } from "./handlers.ts";
import { answerOnce } from "./idempotency.ts";
import { takeFrom } from "./rate-limits.ts";
import { addReferencePage } from "./reference.ts";
import { unstorableField } from "./texts.ts";

export interface ApiOptions {
  database: Database;
  handlers: Handlers<typeof operations>;
  /**
   * Undefined for a caller who is not signed in. Throws a Fault for credentials that are not valid.
   */
  identify(request: FastifyRequest): Promise<Actor | undefined>;
  /** Adds the routes of sign-in. */
  addRoutes(server: FastifyInstance): Promise<void>;
  /** Undefined: no console is served. */
  console: ConsoleOptions | undefined;
  /** The proxies whose X-Forwarded-For names the caller's address. */
  trustedProxies: readonly string[];
  /** The calls of one person or token; an IP address has four times as many. */
  callsPerMinute: number;
  clock: Clock;
  log: Logger;
  version: string;
}

const prefix = "/api/v1";

const nobody: Actor = { kind: "system", id: "", name: "", isOperator: false, roles: new Map() };

const anyObject = Type.Object({});

type AnyHandler = (
  input: { params: unknown; query: unknown; body: unknown },
  context: Context,
) => Promise<Answered<unknown>>;

export async function createApi(options: ApiOptions): Promise<FastifyInstance> {
  const server = Fastify({
    bodyLimit: bodyBytesMax,
    forceCloseConnections: true,
    trustProxy: options.trustedProxies.length > 0 && [...options.trustedProxies],
    routerOptions: { maxParamLength: 200 },
    // Addresses without a route have no hooks.
    frameworkErrors(_error, _request, reply: FastifyReply) {
      const fault = new Fault(
        "invalid",
        "The address is not valid: a part of it is too long, or its escapes are wrong.",
      );
      void sendFault(fault, reply.headers(safeHeaders));
    },
  });
  server.setSerializerCompiler<TSchema>(({ schema }) => {
    return (answer) => serializerOf(schema)(answer);
  });
  server.setValidatorCompiler<TSchema>(({ schema, httpPart }) => validatorOf(schema, httpPart !== "body"));
  server.setErrorHandler<FastifyError | Fault>((error, request, reply) => {
    const fault = faultOf(error, request.routeOptions.bodyLimit ?? bodyBytesMax);
    if (fault.kind === "internal")
      options.log.error({ err: error, path: request.routeOptions.url }, "an API call failed");
    return sendFault(fault, reply);
  });
  addBodyParsers(server);
  const page = options.console && (await addConsole(server, options.console));
  server.setNotFoundHandler((request, reply) => {
    if (page?.(request, reply)) return;
    throw new Fault("not_found", `There is no ${request.method} ${request.url.split("?", 1)[0]?.slice(0, 200)}.`);
  });
  protect(server, options.callsPerMinute);
  addCompression(server);
  await options.addRoutes(server);
  await server.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title: "Sluice", version: options.version, description: "Accounts, keys, usage and the catalogue." },
      components: {
        securitySchemes: {
          token: { type: "http", scheme: "bearer" },
          session: { type: "apiKey", in: "cookie", name: "sluice.session_token" },
        },
      },
      security: [{ token: [] }, { session: [] }],
    },
  });
  const callers = new TokenBuckets({
    max: options.callsPerMinute,
    everyMs: 60_000 / options.callsPerMinute,
    keysMax: callersMax,
  });
  for (const [name, operation] of Object.entries<Operation>(operations))
    addRoute(server, { ...options, callers }, name, operation);
  server.get(`${prefix}/openapi.json`, { schema: { hide: true } }, () => server.swagger());
  await addReferencePage(server, `${prefix}/docs`, `${prefix}/openapi.json`);
  return server;
}

/**
 * An empty body counts as none, whatever its type: many programs send one with each call. A body
 * that parsers read differently is refused.
 */
function addBodyParsers(server: FastifyInstance): void {
  const parseJson = server.getDefaultJsonParser("error", "error");
  server.removeAllContentTypeParsers();
  server.addContentTypeParser<string>("application/json", { parseAs: "string" }, (request, body, done) =>
    body === ""
      ? done(null)
      : parseJson(request, body, (error, value) => {
          if (error) return done(error);
          const read = parseWithin(Buffer.from(body.replace(/^\ufeff/, "")), requestBounds);
          done("value" in read ? null : new Fault("invalid", faultMessageOf(read)), value);
        }),
  );
  server.addContentTypeParser<string>("*", { parseAs: "string" }, (_request, body, done) =>
    done(body === "" ? null : notJson()),
  );
}

const notJson = () => new Fault("unsupported_media_type", "Send JSON with `Content-Type: application/json`.");

/** They keep browsers from guessing, framing and leaking. */
const safeHeaders = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** Limits calls by IP address, and adds the headers. */
function protect(server: FastifyInstance, callsPerMinute: number): void {
  const calls = 4 * callsPerMinute;
  const addresses = new TokenBuckets({ max: calls, everyMs: 60_000 / calls, keysMax: callersMax });
  server.addHook("onRequest", async (request, reply) => {
    reply.headers(safeHeaders);
    takeFrom(addresses, callerOf(request.ip), "Too many calls from this address; wait a little.");
  });
}

function addRoute(
  server: FastifyInstance,
  options: ApiOptions & { callers: TokenBuckets },
  name: string,
  operation: Operation,
): void {
  const handler = options.handlers[name as keyof typeof operations] as AnyHandler;
  const { method, path, summary, access, params, query, body, answer, mediaType, isBodyChecked } = operation;
  const { bodyBytesMax: bodyLimit = bodyBytesMax } = operation;
  const status = operation.status ?? (answer === undefined && mediaType === undefined ? 204 : 200);
  server.route({
    method,
    url: prefix + path,
    bodyLimit,
    schema: {
      operationId: name,
      summary,
      tags: [path.split("/")[1] ?? ""],
      ...(params && { params }),
      ...(query && { querystring: query }),
      ...(body && { body }),
      ...(access === "anyone" && { security: [] }),
      response: {
        ...(answer && mediaType === undefined
          ? { [status]: answer }
          : { [status]: { description: mediaType ?? "Done." } }),
        default: problem,
      },
    } as object,
    ...(isBodyChecked && {
      validatorCompiler: ({ schema, httpPart }: { schema: TSchema; httpPart?: string }) =>
        validatorOf(httpPart === "body" ? anyObject : schema, httpPart !== "body"),
    }),
    handler: async (request, reply) => {
      const actor = await options.identify(request);
      if (actor !== undefined)
        takeFrom(options.callers, `${actor.kind} ${actor.id}`, "You have made too many calls; wait a little.");
      const scope = scopeOf(actor, name, access);
      const context: Context = {
        database: options.database,
        actor: actor ?? nobody,
        scope,
        address: request.ip,
        now: new Date(options.clock.epoch()),
        ifMatch: versionOf(request.headers["if-match"]),
      };
      const answered = await answerOf(request, reply, name, context, handler);
      reply.code(status);
      if (answered.prepared !== undefined) return sendPrepared(request, reply, answered.prepared);
      if (answered.version !== undefined) reply.header("etag", `"${answered.version}"`);
      reply.header("cache-control", "no-store");
      if (mediaType !== undefined) reply.type(mediaType);
      if (answered.filename !== undefined) reply.header("content-disposition", attachmentOf(answered.filename));
      const { body: answer } = answered;
      return reply.send(isStream(answer) ? Readable.from(answer, { objectMode: false }) : answer);
    },
  });
}

const isStream = (body: unknown): body is AsyncIterable<Uint8Array> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body;

/**
 * Sends a prepared answer, unless the caller has it:
 * https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
 */
function sendPrepared(
  request: FastifyRequest,
  reply: FastifyReply,
  { json, etag, isPublic }: NonNullable<Answered<unknown>["prepared"]>,
): FastifyReply {
  reply.headers({
    etag,
    "cache-control": isPublic ? `public, max-age=${publicSeconds}` : "private, no-cache",
    vary: "authorization, cookie",
  });
  const presentTags = request.headers["if-none-match"]?.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (presentTags?.includes(etag)) return reply.code(304).send();
  return reply.type("application/json; charset=utf-8").send(json);
}

/** Runs the handler, or finds its answer to an equal request. */
async function answerOf(
  request: FastifyRequest,
  reply: FastifyReply,
  operation: string,
  context: Context,
  handler: AnyHandler,
): Promise<Answered<unknown>> {
  const input = { params: request.params, query: request.query, body: request.body };
  const { "idempotency-key": idempotencyKey } = request.headers;
  const { database, actor, now } = context;
  if (request.method !== "POST" || idempotencyKey === undefined) return handler(input, context);
  const call = { idempotencyKey, operation, actor, input, now };
  const { isReplayed, ...answered } = await answerOnce(database, call, () => handler(input, context));
  if (isReplayed) reply.header("idempotent-replayed", "true");
  return answered;
}

type Serializer = (answer: unknown) => string;
const serializers = new WeakMap<TSchema, Serializer>();

/**
 * Compiled when first used: all of them take half a second at the start, and most processes answer
 * few operations.
 */
function serializerOf(schema: TSchema): Serializer {
  const present = serializers.get(schema);
  if (present !== undefined) return present;
  const serializer: Serializer = fastJsonStringify(schema);
  serializers.set(schema, serializer);
  return serializer;
}

/** Values of a path or a query are text, so they are converted; those of a body are not. */
function validatorOf(schema: TSchema, converts: boolean) {
  const validator = Compile(schema);
  return (input: unknown): { value: unknown } | { error: Error } => {
    const value = converts ? Value.Default(schema, Value.Convert(schema, input)) : input;
    if (validator.Check(value)) {
      const field = unstorableField(value);
      if (field === undefined) return { value };
      return { error: new Fault("invalid", `${field} contains NUL or half of a surrogate pair.`, { field }) };
    }
    const [first] = validator.Errors(value);
    const field = first?.instancePath.slice(1).replaceAll("/", ".") ?? "";
    return { error: new Fault("invalid", `${field || "The request"} ${wordsOf(first)}.`, { field }) };
  };
}

/** The words for the fault of a field. */
function wordsOf(error: TLocalizedValidationError | undefined): string {
  if (error?.keyword === "boolean") return "is no field of this call";
  if (error?.keyword === "enum") return `must be one of ${error.params.allowedValues.join(", ")}`;
  if (error?.keyword === "format" && error.params.format === "date-time")
    return "must be a time with its zone, such as 2026-01-31T12:00:00Z";
  return error?.message ?? "is not valid";
}

/** The version in an `If-Match` header: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1 */
function versionOf(header: string | undefined): number | undefined {
  if (header === undefined || header === "*") return undefined;
  const [, version] = /^"(\d{1,9})"$/.exec(header) ?? [];
  if (version === undefined)
    throw new Fault("invalid", '`If-Match` must be an ETag of this API, such as "3", in quotes.', {
      field: "If-Match",
    });
  return Number(version);
}

function faultOf(error: FastifyError | Fault, bytesMax: number): Fault {
  if (error instanceof Fault) return error;
  if (error.statusCode === 413) return new Fault("too_large", `The body is larger than ${bytesMax} bytes.`);
  if (error.statusCode === 415) return notJson();
  // Such as a path that leaves the directory of the console.
  if (error.statusCode === 403 || error.statusCode === 404)
    return new Fault("not_found", "There is nothing at this address.");
  if (error.statusCode !== undefined && error.statusCode < 500) return new Fault("invalid", error.message);
  return new Fault("internal", "The call failed by an error of the gateway; the log has more.");
}

function sendFault(fault: Fault, reply: FastifyReply): FastifyReply {
  if (fault.retryAfterSeconds !== undefined) reply.header("retry-after", fault.retryAfterSeconds);
  return reply
    .code(fault.problem.status)
    .type("application/problem+json")
    .serializer(JSON.stringify)
    .send(fault.problem);
}
